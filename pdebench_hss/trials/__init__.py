"""A trial from its key to its record: fitting, scoring, the store, and what is believed when it is read."""
