"""Data movement: copies, padding, gathers, scatters, scans, top-k, NMS."""
