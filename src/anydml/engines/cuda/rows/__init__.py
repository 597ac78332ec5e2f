"""Rows: maps, reductions and resampling, over tiles of all views together."""
