"""Using trained models of a board: on arrays, on other data, as files for other programs."""
