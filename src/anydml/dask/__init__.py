"""DirectML's operators on dask arrays: lazy, in blocks, on one machine or on a cluster.

Every function of anydml takes dask arrays and gives lazy ones. An operator whose blocks would need one another in a way
that has no form in blocks is refused, and the error says what to rechunk; nothing is computed in silence.
"""
