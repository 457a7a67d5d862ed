"""The paper's tables: what a model costs, and what was measured beside what was published."""
