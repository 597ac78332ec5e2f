"""Maps and reductions."""
