"""Who attends to whom."""
