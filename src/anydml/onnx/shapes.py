"""The open sizes of a model's inputs: bound once when it is loaded, and the rest by the arrays of each run."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.arrays.view import describe
from anydml.core.enum_parsing import suggest
from anydml.core.errors import BindingError, DescriptionError, Fault, ModelError, printable, show
from anydml.core.parse import read_int, read_ints
from anydml.onnx.example_sizes import Examples, told
from anydml.onnx.lower.tracer import MOST_FOLDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.onnx.checks import TensorInfo
    from anydml.onnx.ir import Size

_MOST = 2**32 - 1
_ANONYMOUS = ("?", "*", "-1", "None")
"""Names that exporters write where a size has none: two of them are two sizes."""


class Binder:
    """The inputs' shapes, as far as they are known."""

    def __init__(
        self, subject: str, inputs: Mapping[str, TensorInfo], given: Mapping[str, int | Sequence[int]]
    ) -> None:
        self._subject, self._inputs = subject, inputs
        self._declared = {name: named_sizes(name, info.shape) for name, info in inputs.items()}
        if not isinstance(given, Mapping):
            rule = "shapes must be a mapping of the names of inputs and of open sizes to shapes and sizes"
            fault = Fault(field="shapes", rule=rule, value=given, found=describe(given), way_out="such as {'n': 8}")
            raise DescriptionError(subject, fault)
        self._sizes: dict[str, int] = {}
        """Of named dimensions, and of those without a name as `x[0]`."""
        self._shapes: dict[str, tuple[int, ...]] = {}
        open_sizes = {size for shape in self._declared.values() for size in shape or () if isinstance(size, str)}
        faults: list[Fault] = []
        for name, value in given.items():
            if name in open_sizes and (name not in inputs or _is_size(value)):
                self._sizes[name] = read_int(value, f"shapes[{name!r}]", faults, 0, _MOST)
            elif name in inputs:
                self._shapes[name] = read_ints(value, f"shapes[{name!r}]", faults, 0, _MOST)
            else:
                known = [repr(printable(n)) for n in [*inputs, *sorted(open_sizes)]]
                rule = f"shapes must name inputs or dynamic sizes; there is no {show(name)}"
                way_out = f"there are {', '.join(known) or 'none'}"
                if hint := suggest(name, known):
                    way_out += f"; {hint}"
                faults.append(Fault(field=f"shapes[{show(name)}]", rule=rule, way_out=way_out, is_slip=True))
        if faults:
            raise DescriptionError(subject, faults)
        for name, shape in self._shapes.items():
            self._match(name, self._declared[name], shape, self._sizes)
        self._learn()

    def _learn(self) -> None:
        """Let shapes that are given whole bind the sizes of other inputs, where they agree on them."""
        found: dict[str, set[int]] = {}
        for name, shape in self._shapes.items():
            for size, number in zip(self._declared[name] or (), shape, strict=False):  # as many, or none are declared
                if isinstance(size, str):
                    found.setdefault(size, set()).add(number)
        self._sizes |= {size: several.pop() for size, several in found.items() if len(several) == 1}

    def examples(self, names: Sequence[str], metadata: Mapping[str, str]) -> Examples:
        """A shape for each of these inputs, and numbers for what sizes in them nobody bound."""
        resolved = dict[str, tuple[int | str, ...]]()
        for name in names:
            sizes = self._resolved(name)
            if sizes is None:
                rule = f"input {printable(name)!r} has no shape of its own, and must be given one"
                raise DescriptionError(
                    self._subject, Fault(field=name, rule=rule, way_out=f"such as {printable(name)}=2,3")
                )
            resolved[name] = sizes
        return Examples(resolved, metadata)

    def resolve(self, shape: Sequence[Size] | None) -> tuple[Size, ...] | None:
        """A declared shape with the sizes that are bound."""
        return None if shape is None else tuple(self._sizes.get(n, n) if isinstance(n, str) else n for n in shape)

    def shown(self, name: str) -> tuple[Size, ...] | None:
        """An input's shape as far as it is bound."""
        sizes, shape = self._resolved(name), self._inputs[name].shape
        if sizes is None or shape is None:
            return sizes
        return tuple(own if isinstance(size, str) else size for size, own in zip(sizes, shape, strict=True))

    def known(self, names: Sequence[str]) -> dict[str, tuple[int, ...]] | None:
        """The shapes of these inputs, where every size is bound."""
        found = {}
        for name in names:
            sizes = self._resolved(name)
            if sizes is None or any(isinstance(size, str) for size in sizes):
                return None
            found[name] = tuple(size for size in sizes if isinstance(size, int))
        return found

    def bind(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Check the shapes of a run's arrays against those declared and given.

        A size that nobody bound is not compared with others of its name, as ONNX Runtime does not either: models have
        one name for sizes that differ.
        """
        for name, shape in shapes.items():
            self._match(name, self._shapes.get(name, self._declared[name]), shape, self._sizes)
        return dict(shapes)

    def differing(self, shapes: Mapping[str, tuple[int, ...]]) -> list[Fault]:
        """Sizes of a run's arrays that differ under one name: the likely reason of a failure."""
        sizes, faults = dict(self._sizes), list[Fault]()
        for name, shape in shapes.items():
            try:
                self._match(name, self._declared[name], shape, sizes)
            except BindingError as error:
                faults += error.faults
                continue
            for size, number in zip(self._declared[name] or (), shape, strict=False):  # as in `_learn`
                if isinstance(size, str):
                    sizes.setdefault(size, number)
        return faults

    def _match(
        self, name: str, wanted: Sequence[int | str] | None, shape: tuple[int, ...], sizes: Mapping[str, int]
    ) -> None:
        if wanted is None:
            return
        if len(wanted) != len(shape):
            declared = _write(self._inputs[name].shape or wanted)
            self._refuse(name, f"must have {len(wanted)} dimensions, {declared}", shape)
        for i, (size, found) in enumerate(zip(wanted, shape, strict=True)):
            if isinstance(size, int) and size != found:
                self._refuse(name, f"must have size {size} in dimension {i}", shape)
            if isinstance(size, str) and sizes.get(size, found) != found:
                rule = f"must have size {sizes[size]} in dimension {i}: {printable(size)!r} is {sizes[size]}"
                self._refuse(name, rule, shape)

    def _resolved(self, name: str) -> tuple[int | str, ...] | None:
        """An input's shape, with the names of sizes that nobody bound."""
        if name in self._shapes:
            return self._shapes[name]
        shape = self._declared[name]
        return None if shape is None else tuple(self._sizes.get(n, n) if isinstance(n, str) else n for n in shape)

    def _refuse(self, name: str, rule: str, shape: tuple[int, ...]) -> None:
        fault = Fault(field=name, rule=f"input {printable(name)!r} {rule}", value=shape, found=str(shape))
        raise BindingError(self._subject, fault)


def assumed_told(error: ModelError, assumed: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> ModelError:
    """An error of a model whose dynamic sizes were assumed: those may be its only reason."""
    if not assumed:
        return error
    first, *others = error.faults
    why = told(assumed, shapes)
    way_out = "; ".join(filter(None, (first.way_out, why[:1].lower() + why[1:])))
    return type(error)(error.subject, [replace(first, way_out=way_out), *others])


def refuse_large(name: str, shape: Sequence[int]) -> Fault | None:
    """The fault of an input that has too many elements for shapes to depend on their values."""
    count = math.prod(shape)
    if count <= MOST_FOLDED:
        return None
    what = f"input '{printable(name)}' has {count}"
    rule = f"a shape must depend on inputs of at most {MOST_FOLDED} elements; {what}"
    return Fault(field=name, rule=rule, value=count)


def named_sizes(name: str, shape: Sequence[Size] | None) -> tuple[int | str, ...] | None:
    """A declared shape whose open sizes all have names: `x[0]` where the model gives none."""
    if shape is None:
        return None
    return tuple(f"{name}[{i}]" if size is None or size in _ANONYMOUS else size for i, size in enumerate(shape))


def _is_size(value: object) -> bool:
    """Whether it is one number rather than a list of them."""
    try:
        operator.index(value)  # type: ignore[arg-type]  # that it may not be an index is what is asked
    except Exception:  # noqa: BLE001 - a hostile __index__ may raise anything
        return False
    return True


def _write(shape: Sequence[Size]) -> str:
    return "(" + ", ".join("?" if size is None else printable(str(size)) for size in shape) + ")"
