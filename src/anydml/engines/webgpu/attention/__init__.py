"""Attention in one pass."""
