"""What is written whole or not at all, stays on the disk, and is locked meanwhile."""
