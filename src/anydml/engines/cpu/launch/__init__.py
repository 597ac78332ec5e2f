"""Launches: argument records, and kernels as built-in functions, alone, in series and in loops."""
