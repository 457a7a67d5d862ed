"""gin's language: what a text binds, and whether a run can use it."""
