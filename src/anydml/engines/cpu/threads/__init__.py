"""Threads: the native team, the pool in its place, and the scratch memory that kernels take."""
