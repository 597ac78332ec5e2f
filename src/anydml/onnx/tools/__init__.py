"""Tools on models: compare, minimise, extract, report, and arrays for inputs."""
