"""Beam search, and the translator that turns text into text with it."""
