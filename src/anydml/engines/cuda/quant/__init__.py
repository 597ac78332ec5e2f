"""Products with weights of few bits. A `*_kernel.py` has the Triton functions that generated ones call."""
