"""Marian's models, in the form of Hugging Face."""
