"""Rows: maps and reductions along one innermost dimension of several views, softmax and normalisations included."""
