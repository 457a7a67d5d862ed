"""Marian's models, as Marian writes them and in the form of Hugging Face."""
