"""The kernels: each is made by name, and compiled by Numba for the very CPU it runs on.

A kernel is `kernel(words, begin, end)`: it does the units of work begin .. end of what the 64-bit words at an address
describe, and returns a status. It validates nothing and allocates nothing. The words' meaning stands with each kernel;
the first `HEADER` of them belong to whoever calls.
"""

HEADER = 3
