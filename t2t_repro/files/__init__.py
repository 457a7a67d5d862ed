"""Files: whole or not at all, on the disk to stay, locked meanwhile, read in bounded memory."""
