"""Attention weights of a sentence pair, as a page and as pictures."""
