"""Operators on a GPU: PyTorch's tensors stay where they are, and a bound operator is launched and nothing else."""

from __future__ import annotations

import anydml as dml

try:
    device = dml.Device("cuda")
except dml.MissingDependencyError as missing:
    print(f"not here: {missing}")
else:
    import torch

    place = device.engine.memory  # cuda:0
    x = torch.arange(12, dtype=torch.float32, device=place).reshape(3, 4)
    print(dml.slice1(x, input_window_offsets=[0, 0], input_window_sizes=[3, 4], input_window_strides=[1, -1]))

    tensor = dml.TensorDesc.of(x)
    run = device.compile(dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=1))
    total = torch.empty_like(x)
    step = run.bind(x, out=total)
    step.dispatch()
    print(total)

    try:
        dml.gather_nd(x, torch.tensor([[0], [3]], device=place))
    except dml.IndexRangeError as outside:
        print(outside)
