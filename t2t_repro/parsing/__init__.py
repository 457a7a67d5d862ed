"""Constituency parsing (section 6.3)."""
