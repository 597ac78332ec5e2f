"""What every layer stands on: errors, enumerations, readers of values, symbolic sizes, memory, files, limits."""
