"""Data movement: copies, padding, gathers, scatters, scans, top-k, NMS. Planners import no `*_kernel.py`."""
