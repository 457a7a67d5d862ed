"""Spans of time in words that nobody misreads."""

import math


def in_words(seconds: float) -> str:
    """Returns such as "under a minute", "7 min", "3 h 20 min" or "2 days 5 h", rounded up."""
    if seconds < 60:
        return "under a minute"
    minutes = math.ceil(seconds / 60)
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return _two(days, "day" if days == 1 else "days", hours % 24, "h")
    return _two(hours, "h", minutes % 60, "min") if hours else f"{minutes} min"


def _two(large: int, of_large: str, small: int, of_small: str) -> str:
    return f"{large} {of_large} {small} {of_small}" if small else f"{large} {of_large}"
