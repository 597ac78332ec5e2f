"""An ONNX model on DirectML's operators: what each node needs, what it computes, and the passes that it becomes.

It needs onnx: pip install 'anydml[onnx]'.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

MODEL = Path(__file__).parent / "models" / "crop.onnx"


def main() -> None:
    if importlib.util.find_spec("onnx") is None:
        print("This example needs onnx: pip install 'anydml[onnx]'")
        return
    import anydml.onnx

    for node in anydml.onnx.check(MODEL, shapes={"batch": 3, "picks": 2}).nodes:
        print(f"{node.label}: {', '.join(node.operators)}, from level {node.lowest_level} on")

    model = anydml.onnx.load(MODEL)  # the sizes that it leaves open are bound by the arrays of a run
    print(f"\n{model}")
    x = np.arange(18, dtype="float32").reshape(3, 6)
    rows = np.array([2, -3])
    y = model.run({"x": x, "rows": rows})["y"]
    print(y)
    expected = np.cumsum(x[:, 1:5][:, ::-1], axis=1)[:, ::-1][rows].T
    np.testing.assert_array_equal(y, expected)


if __name__ == "__main__":
    main()
