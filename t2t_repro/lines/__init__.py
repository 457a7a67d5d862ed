"""Text that verbs read and write: a line in, a line out; long texts block by block."""
