"""A page to explore operators and models: `anydml explore`, on this machine alone or as one file.

Its forms are the options of `anydml explain`, so that a page, a link and a command line say the same.
"""
