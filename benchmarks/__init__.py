"""The engines against their peers and the machine's own copy speed: `python -m benchmarks [--engine cuda]`.

`--against COMMIT` times the tree of a commit beside this one: `against` asks a process of each, which is `tree`.

`row` says what a line of the table is and `chain` what one of several operators is made of, `results` what is kept of it
and judged, `table`, `chart` and `figures` show it; `cpu` and `cuda` hold each engine's rows, contestants and way of
measuring.
"""
