"""Dask arrays: anydml against plain Dask and NumPy on one cluster, in turns: CPU seconds of the workers, and wall."""
