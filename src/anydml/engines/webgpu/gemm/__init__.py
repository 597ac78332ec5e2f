"""Products of matrices: register tiles."""
