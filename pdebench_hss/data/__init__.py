"""Datasets: their identity, the cache, generation, the HDF5 file, public sources, export and previews."""
