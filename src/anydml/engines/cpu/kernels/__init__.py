"""The kernels: each is made by name, as text of LLVM or in Python, and compiled for the very CPU it runs on.

A kernel is `kernel(words, begin, end)`: it does the units of work begin .. end of what the 64-bit words at an address
describe, and returns a status. It validates nothing and allocates nothing. The words' meaning stands with each kernel;
the first `HEADER` of them belong to whoever calls: the units, what is returned for the status 0 and for any other, the
kernel's address, and the bytes that all of it moves. A kernel uses less than 64 KiB of stack.
"""

HEADER = 5
LINE = 64
"""Bytes of a line of the cache."""
