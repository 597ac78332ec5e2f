"""The four core operators on the documents' own examples, each as a picture, and what an error looks like."""

from __future__ import annotations

import numpy as np

import anydml as dml
from anydml.explain import explain

T = dml.TensorDesc
SQUARE = np.arange(1, 17, dtype="float32").reshape(1, 1, 4, 4)
TALLY = np.array([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]], "float32").reshape(1, 1, 3, 4)
TABLE, INDICES = np.array([[0, 1], [2, 3]], "float32"), np.array([[1], [0]], "uint32")


def main() -> None:
    device = dml.Device()
    print(f"anydml {dml.__version__} on {device!r}\n")
    for desc, inputs in OPERATORS:
        print(explain(desc, *inputs).text())
        print(f"    The cpu engine computes {device.compile(desc)(*inputs).ravel()}\n")
    print("And when a description is wrong, the error says which field breaks which rule:\n")
    try:
        dml.slice1(SQUARE, (0, 0, 0, 2), (1, 1, 4, 3), (1, 1, 0, 2))
    except dml.DescriptionError as error:
        print(f"    {error}".replace("\n", "\n    "))


OPERATORS: list[tuple[dml.OperatorDesc, tuple[np.ndarray, ...]]] = [
    (
        dml.Slice.infer(input_tensor=T.of(SQUARE), offsets=(0, 0, 1, 2), sizes=(1, 1, 3, 2), strides=(1, 1, 1, 1)),
        (SQUARE,),
    ),
    (
        dml.Slice1.infer(
            input_tensor=T.of(SQUARE),
            input_window_offsets=(0, 0, 0, 1),
            input_window_sizes=(1, 1, 4, 3),
            input_window_strides=(1, 1, -2, 2),
        ),
        (SQUARE,),
    ),
    (
        dml.GatherND.infer(
            input_tensor=T.of(TABLE), indices_tensor=T.of(INDICES), input_dimension_count=2, indices_dimension_count=2
        ),
        (TABLE, INDICES),
    ),
    (dml.CumulativeSummation.infer(input_tensor=T.of(TALLY), axis=3), (TALLY,)),
]


if __name__ == "__main__":
    main()
