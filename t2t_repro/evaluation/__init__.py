"""Scores of translations, each under its own name."""
