"""Attention in one pass over the keys."""
