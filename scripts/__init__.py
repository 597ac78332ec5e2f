"""Scripts that write parts of the repository."""
