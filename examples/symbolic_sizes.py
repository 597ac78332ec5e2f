"""A graph that is built once, for images of any number and any size: python examples/symbolic_sizes.py"""

import time
from typing import Any

import numpy as np

import anydml as dml

rng = np.random.default_rng(0)
g = dml.Graph()
image = g.input("float32", ("batch", 3, "height", "width"), "image")
filters = g.constant(rng.standard_normal((8, 3, 3, 3), "float32"))
features = dml.relu(dml.convolution(image, filters, start_padding=[1, 1], end_padding=[1, 1]))
middle = dml.slice1(features, [0, 0, 0, 0], [image.sizes[0], 8, image.sizes[2] // 2, image.sizes[3]])
model: Any = g.compile([dml.average(features, axis=(2, 3)), middle])

for shape in ((1, 3, 32, 32), (4, 3, 32, 32), (5, 3, 32, 32), (6, 3, 40, 48)):
    start = time.perf_counter()
    pooled, upper = model(rng.standard_normal(shape, "float32"))
    milliseconds = (time.perf_counter() - start) * 1000
    print(f"{shape} -> {pooled.shape}, {upper.shape}: {milliseconds:.1f} ms, planned {model.plans} times so far")
print(model)
