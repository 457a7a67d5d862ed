"""The model directory: data, read and written in one place."""
