"""The command line: `anydml run`, `check`, `compare`, `reduce`, `explain`, `support`, `engines`."""
