"""Text to ids and back: in Python, and the same in a graph."""
