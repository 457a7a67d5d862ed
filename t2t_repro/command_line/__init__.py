"""Shared by command lines: running and failing, and flags that several of them have."""
