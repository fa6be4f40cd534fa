"""A trial from its key to its record: fitting, scoring, the store, and the checks when a record is read."""
