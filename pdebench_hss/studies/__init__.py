"""A study's sweeps as one plan, its table and its files."""
