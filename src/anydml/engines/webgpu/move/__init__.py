"""Scans, scatters and sorts."""
