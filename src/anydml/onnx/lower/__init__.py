"""ONNX nodes become DirectML operators: a trace of the graph, and the lowerings by families of node types."""
