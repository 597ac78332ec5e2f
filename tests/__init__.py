"""The tests, in folders as the source has them; what several share is in `support/`."""
