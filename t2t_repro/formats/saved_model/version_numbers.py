"""Which numbers a version may have."""

LARGEST_VERSION = 2**63 - 1
"""Of an int64, as messages have it."""
