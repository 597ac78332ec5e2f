"""WGSL from expressions."""
