"""The work of engines: expressions over elements, verbs over views of memory, and the plan of a walk over them."""
