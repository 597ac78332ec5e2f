"""Data movement: copies, padding, gathers, scatters, scans, orders. A `*_kernel.py` is loaded only to compile."""
