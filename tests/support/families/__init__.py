"""What is known of each family: its oracle, how results are compared, its examples, rules and random descriptions."""
