"""Whole trainings in other people's toolkits: their own commands, from text to translations.

`*_commands.py` says what is typed; the other files are run by the Python of a toolkit.
"""
