"""Checks of files that a stranger may have written, before anything of them is used."""
