"""gin's language: the bindings of a text, and whether a run can use them."""
