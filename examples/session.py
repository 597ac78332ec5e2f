"""A program for ONNX Runtime with one line changed: sessions, options, bound arrays and errors on DirectML's operators.

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
    import anydml.onnxruntime as ort  # was: import onnxruntime as ort

    options = ort.SessionOptions()
    options.enable_mem_pattern = False  # as DirectML's provider wants it
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.add_free_dimension_override_by_name("batch", 3)
    session = ort.InferenceSession(str(MODEL), options, providers=["DmlExecutionProvider"])
    print(f"on the {session.get_provider_options()['DmlExecutionProvider']['device']}")
    for arg in (*session.get_inputs(), *session.get_outputs()):
        print(f"{arg.name}: {arg.type} {arg.shape}")

    x, rows = np.arange(18, dtype="float32").reshape(3, 6), np.array([2, -3])
    (y,) = session.run(None, {"x": x, "rows": rows})
    print(y)

    # Bound once: each run reads what the value holds then.
    value, binding = ort.OrtValue.ortvalue_from_numpy(x.copy()), session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_cpu_input("rows", rows)
    binding.bind_output("y")
    value.update_inplace(2 * x)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 2 * y)

    try:
        session.run(None, {"x": x.astype("float64"), "rows": rows})
    except ort.InvalidArgument as error:
        print(f"InvalidArgument: {error}")


if __name__ == "__main__":
    main()
