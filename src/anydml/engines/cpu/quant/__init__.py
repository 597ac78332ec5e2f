"""Quantised products: int8 by int8, and 4- and 8-bit weights by floating-point rows."""
