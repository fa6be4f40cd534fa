"""Trained models taken from a board and used: on arrays, as files for other programs."""
