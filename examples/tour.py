"""The first example of each seed document: what goes in, what is picked, what comes out. `make run` shows this."""

from __future__ import annotations

import itertools
import sys

import numpy as np

import anydml as dml

ARROW = ["  ->  ", *["      "] * 3]
COLOUR = sys.stdout.isatty()
PICTURE = np.arange(1, 17, dtype="float32").reshape(1, 1, 4, 4)
NUMBERS = np.arange(16).reshape(PICTURE.shape)
TALLY = np.array([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]], "float32").reshape(1, 1, 3, 4)


def main() -> None:
    print(f"anydml {dml.__version__} on {dml.Device()!r}\n")
    show_slice()
    show_slice1()
    show_gather_nd()
    show_cumulative_summation()
    show_error()


def show_slice() -> None:
    title("SLICE", "Offsets {0,0,1,2}  Sizes {1,1,3,2}  Strides {1,1,1,1}")
    window = (0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1)
    # The same slice of the elements' own numbers says which of them are picked.
    picked = dml.slice(NUMBERS, *window)
    side_by_side(grid(PICTURE[0, 0], picked), ARROW, grid(dml.slice(PICTURE, *window)[0, 0]))


def show_slice1() -> None:
    title("SLICE1", "InputWindowOffsets {0,0,0,1}  InputWindowSizes {1,1,4,3}  InputWindowStrides {1,1,2,2}")
    window = (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, 2, 2)
    picked = dml.slice1(NUMBERS, *window)
    side_by_side(grid(PICTURE[0, 0], picked), ARROW, grid(dml.slice1(PICTURE, *window)[0, 0]))


def show_gather_nd() -> None:
    title("GATHER_ND", "output[y, x] = input[indices[y], x]")
    x = np.array([[0, 1], [2, 3]], "float32")
    indices = np.array([[1], [0]], "uint32")
    chosen = [f"  indices[{y}] = ({row[0]}) picks row {row[0]}  " for y, row in enumerate(indices)]
    side_by_side(grid(x), chosen, ARROW, grid(dml.gather_nd(x, indices)))


def show_cumulative_summation() -> None:
    title("CUMULATIVE_SUMMATION", "Axis 3  AxisDirection INCREASING  HasExclusiveSum FALSE")
    sums = dml.cumulative_summation(TALLY, axis=3)
    terms = ["  = " + ", ".join("+".join(f"{v:g}" for v in row[: i + 1]) for i in range(4)) for row in TALLY[0, 0]]
    side_by_side(grid(TALLY[0, 0]), ARROW, grid(sums[0, 0]), terms)


def show_error() -> None:
    title("And when a description is wrong", "the error says which field breaks which rule")
    try:
        dml.slice1(PICTURE, (0, 0, 0, 2), (1, 1, 4, 3), (1, 1, 0, 2))
    except dml.DescriptionError as error:
        print(f"    {error}".replace("\n", "\n    "))


def title(name: str, fields: str) -> None:
    print(f"\033[1m{name}\033[0m  {fields}" if COLOUR else f"{name}  {fields}", end="\n\n")


def grid(values: np.ndarray, picked: np.ndarray | None = None) -> list[str]:
    """A line for each row; the picked elements, given by their numbers, stand in brackets."""
    chosen = set() if picked is None else set(picked.ravel().tolist())
    cells = [mark(f"{value:g}", number in chosen) for number, value in enumerate(values.ravel())]
    width = values.shape[-1]
    return ["".join(cells[i : i + width]) for i in range(0, len(cells), width)]


def mark(text: str, picked: bool) -> str:
    cell = f"[{text:>2}]" if picked else f" {text:>2} "
    return f"\033[32m{cell}\033[0m" if picked and COLOUR else cell


def side_by_side(*columns: list[str]) -> None:
    for parts in itertools.zip_longest(*columns, fillvalue=""):
        if line := "".join(parts).rstrip():
            print("    " + line)
    print()


if __name__ == "__main__":
    main()
