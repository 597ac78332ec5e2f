"""What derives and measures the numbers in the package."""
