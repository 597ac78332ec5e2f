"""Operators as functions on arrays of any library, and graphs built of expressions by the same functions."""
