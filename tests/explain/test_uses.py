"""What pictures say that an element is used for, against the computation: every element of every example is changed."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.arrays.nibbles import pack, unpack
from anydml.cli.explain_examples import example
from anydml.explain import Element, Limits, Picture, explain, shown_inputs
from anydml.explain.picture import spoken
from anydml.explain.values import write_value
from anydml.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drawing import Array, Operator

pytestmark = pytest.mark.sampled(12)

EVERYTHING = Limits(planes=1000, rows=1000, columns=1000, tensors=1000)
_Pair = tuple[Element, Element]


class Computation:
    """A description on the reference engine, with the elements of its packed inputs to be changed one at a time."""

    def __init__(self, desc: dml.OperatorDesc, inputs: list[Array]) -> None:
        self.desc = desc.with_tensors(lambda _, tensor: dml.TensorDesc(tensor.data_type, tensor.sizes))
        self.inputs = dict(zip(self.desc.inputs(), inputs, strict=True))
        self._run = dml.Device("reference").compile(self.desc)
        before = self.results({})
        assert before is not None
        self.before = before

    def results(self, changes: dict[Element, Any]) -> dict[str, Array] | None:
        """The outputs with some elements changed; None where an index is outside its dimension then."""
        arrays = []
        for name, tensor in self.desc.inputs().items():
            array = self.inputs[name].copy()
            for element, value in changes.items():
                if element.tensor == name:
                    array[self._padded(element, array.ndim)] = value
            arrays.append(pack(array) if tensor.data_type.is_half_byte else array)
        try:
            found = self._run(*arrays)
        except dml.IndexRangeError:
            return None
        outputs = zip(self.desc.outputs().items(), found if isinstance(found, tuple) else (found,), strict=True)
        return {
            name: unpack(array, tensor.data_type)[: tensor.extent].reshape(tensor.sizes)
            if tensor.data_type.is_half_byte
            else array
            for (name, tensor), array in outputs
        }

    def changed(self, changes: dict[Element, Any], before: dict[str, Array] | None = None) -> set[Element] | None:
        """The output elements of which a bit is another."""
        after, before = self.results(changes), before or self.before
        if after is None or before is None:
            return None
        return {
            Element(name, at)
            for name, array in after.items()
            for at in map(tuple, np.argwhere(bits(array) != bits(before[name])).tolist())
        }

    def value(self, element: Element) -> Any:
        array = self.inputs[element.tensor]
        return array[self._padded(element, array.ndim)]

    @staticmethod
    def _padded(element: Element, rank: int) -> tuple[int, ...]:
        return (0,) * (rank - len(element.coordinate)) + element.coordinate

    def whole(self, element: Element) -> Element:
        """An output element by all of its coordinates."""
        return Element(element.tensor, self._padded(element, len(self.desc.tensors()[element.tensor].sizes)))

    def others(self, element: Element) -> list[Any]:
        """Numbers to try instead: next to it, far away, none, and every place that an index may name."""
        value, kind = self.value(element), self.desc.tensors()[element.tensor].data_type
        if kind.is_float:
            few = [value + 1, -1e3, 1e3, 0, np.nan, 1, value - 1, value + 0.25, -value, value * 1.5, 2, np.inf, -np.inf]
            return [one for one in few if one != value]
        low, high = kind.limits
        few = [int(value) + 1, 0, high, low, int(value) - 1, *range(1, 13), -1, 100, -100, int(value) ^ 1 << 20]
        return [one for one in dict.fromkeys(few) if low <= one <= high and one != int(value)]


def bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def said(computation: Computation, picture: Picture) -> dict[_Pair, str]:
    """By input and output element what the picture says that the one is used for."""
    found: dict[_Pair, str] = {}
    for grid in picture.grids:
        for cell in grid.cells() if grid.role == "output" else ():
            ways = (("made of", cell.sources), ("decided by", cell.chosen_by), ("compared", cell.compared))
            for use, elements in ways:
                for element in elements:
                    pair = element, computation.whole(cell.element)
                    assert pair not in found, "one use of each"
                    found[pair] = use
    return found


def elements(picture: Picture) -> Iterator[tuple[Element, str]]:
    """The input elements that are drawn, with what is said of each."""
    for grid in picture.grids:
        yield from ((cell.element, cell.says) for cell in grid.cells() if grid.role == "input")


def check(cls: Operator) -> None:
    desc, arrays = example(cls)
    picture = explain(desc, *arrays, limits=EVERYTHING)
    assert picture.error is None
    assert not any(grid.left_out for grid in picture.grids)
    computation = Computation(desc, shown_inputs(desc, *arrays))
    uses = said(computation, picture)
    with np.errstate(all="ignore"):
        check_names(picture)
        check_values(computation, picture)
        effects = check_what_changes(computation, picture, uses)
        check_what_is_used(computation, uses, effects)
        check_what_decides(computation, uses)


def check_names(picture: Picture) -> None:
    """What one step leaves to another has a name of ours, which says nothing to a reader."""
    says = [cell.says for grid in picture.grids for cell in grid.cells()]
    names = {spoken(grid.tensor).partition("[")[0] for grid in picture.grids} | {"index", "scores", "weights"}
    for text in (picture.summary, *picture.sentences, *says):
        found = set(re.findall(r"\b([a-z]\w*)(?:\[| = (?=[a-z]))", text))
        assert found <= names | {"out"}, text  # which MAX_UNPOOLING says of itself


def check_values(computation: Computation, picture: Picture) -> None:
    """Every number that is drawn is the engine's."""
    for grid in picture.grids:
        for cell in grid.cells() if grid.role == "output" else ():
            whole = computation.whole(cell.element)
            assert cell.value == write_value(computation.before[grid.tensor][whole.coordinate]), cell.says


def check_what_changes(
    computation: Computation, picture: Picture, uses: dict[_Pair, str]
) -> dict[Element, set[Element]]:
    """Whatever stands in an element, nothing changes but what it is connected with; returns what did."""
    effects: dict[Element, set[Element]] = defaultdict(set)
    for element, says in elements(picture):
        connected = {output for one, output in uses if one == element}
        assert ("is not used" in says) == (not connected), says
        for value in computation.others(element):
            changed = computation.changed({element: value}) or set()
            assert changed <= connected, f"{says}, and with {value} changes {changed - connected}"
            effects[element] |= changed
    return effects


def check_what_is_used(computation: Computation, uses: dict[_Pair, str], effects: dict[Element, set[Element]]) -> None:
    """What is used for an output element can change it: alone, or where others that are used for it hold other numbers.

    So it is of a product with 0, of the second false term of an `and`, and of what was compared and far from winning.
    """
    for (element, output), use in uses.items():
        if output in effects[element]:
            continue
        others = [one for one, other in uses if other == output and one != element]
        assert any(
            output in (computation.changed({**world, element: value}, before) or ())
            for world in worlds(computation, element, others)
            if (before := computation.results(world)) is not None
            for value in computation.others(element)
        ), f"{output} is {use} {element}, which changes nothing there"


def worlds(computation: Computation, element: Element, others: list[Element]) -> Iterator[dict[Element, Any]]:
    """Other numbers in what is used beside an element: in one, first of other tensors, then in all, then in some."""
    for one in sorted(others, key=lambda one: one.tensor == element.tensor):
        yield from ({one: value} for value in computation.others(one)[:5])
    yield from (dict.fromkeys(others, value) for value in (0, 1))
    rng = np.random.default_rng(0)
    for _ in range(1000):
        some = [one for one in others if rng.integers(2)]
        yield {one: rng.integers(2) and computation.others(one)[0] for one in some}


def check_what_decides(computation: Computation, uses: dict[_Pair, str]) -> None:
    """Of what only decides, or is compared, no result is computed: a little more or less is no matter.

    On the very limit, or where two are equal, one of these changes what is decided; at 0 both do where that is asked.
    """
    for (element, output), use in uses.items():
        value = computation.value(element)
        if use == "made of" or value.dtype.kind != "f" or not np.isfinite(value) or not value:
            continue
        near = [computation.changed({element: value + value.dtype.type(by)}) or set() for by in (1e-3, -1e-3)]
        assert not all(output in changed for changed in near), f"{output} is {use} {element}, and changes with it"


@pytest.mark.parametrize("cls", [cls for cls in OPERATORS.values() if cls.input_names()], ids=lambda cls: cls.type.name)
def test_elements_are_used_as_the_picture_says(cls: Operator) -> None:
    check(cls)
