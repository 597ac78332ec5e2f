"""The cuda engine against PyTorch, eager and compiled, CuPy, JAX and the card's own copy speed.

`pool` makes the arrays on the device, `kinds` says what a row is and `rows` which there are, `contestants` who runs it, `check` looks at the
answers, `measure` times, and `run` goes through the rows. PyTorch is needed; the other peers may be absent.
"""
