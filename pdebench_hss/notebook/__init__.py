"""What only somebody at a notebook or an interpreter needs: boards as objects, models from cells, progress in place.

sources    the source of a class in a cell, with all that it uses
models     classes and specs -> plugin files, which every process can load
progress   what a run shows: bars in a cell or on a terminal
board      `Board`: a board that shows itself
pages      its tables as HTML and as text
figures    its figures as values of cells
"""
