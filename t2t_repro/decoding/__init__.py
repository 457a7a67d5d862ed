"""Searches, and the translator that turns text into text with them."""
