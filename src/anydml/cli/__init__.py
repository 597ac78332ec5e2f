"""The command line: `anydml run`, `check`, `explain`, `support`, `engines`."""
