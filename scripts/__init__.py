"""Scripts that write parts of the repository, and measure others."""
