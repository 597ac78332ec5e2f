"""From a primitive to a kernel and its words: the shape of the work is chosen here, once."""
