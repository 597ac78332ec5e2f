"""Data movement: copies, gathers, scatters, scans, orders. A `*_kernel.py` has the Triton functions."""
