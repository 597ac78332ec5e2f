"""The webgpu engine's kernels, timed."""
