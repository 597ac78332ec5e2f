"""The open sizes of a model's inputs: bound once when it is loaded, and the rest by the arrays of each run."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING

from anydml.arrays.view import describe
from anydml.errors import BindingError, DescriptionError, Fault, printable, show
from anydml.onnx.tracer import MOST_FOLDED
from anydml.parse import read_int, read_ints
from anydml.spelling import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.onnx.graphs import Size, TensorInfo

_MOST = 2**32 - 1
ASSUMED = 2
"""The size that an open dimension is taken for where somebody asks before it is bound: 0 and 1 are indices into it."""


class Binder:
    """The inputs' shapes, as far as they are known."""

    def __init__(
        self, subject: str, inputs: Mapping[str, TensorInfo], given: Mapping[str, int | Sequence[int]]
    ) -> None:
        self._subject, self._inputs = subject, inputs
        if not isinstance(given, Mapping):
            rule = "shapes must be a mapping of the names of inputs and of open sizes to shapes and sizes"
            fault = Fault(field="shapes", rule=rule, value=given, found=describe(given), way_out="such as {'n': 8}")
            raise DescriptionError(subject, fault)
        self._sizes: dict[str, int] = {}
        """Of named dimensions."""
        self._shapes: dict[str, tuple[int, ...]] = {}
        names = {size for info in inputs.values() for size in info.shape or () if isinstance(size, str)}
        faults: list[Fault] = []
        for name, value in given.items():
            if name in names and (name not in inputs or _is_size(value)):
                self._sizes[name] = read_int(value, f"shapes[{name!r}]", faults, 0, _MOST)
            elif name in inputs:
                self._shapes[name] = read_ints(value, f"shapes[{name!r}]", faults, 0, _MOST)
            else:
                known = [repr(printable(n)) for n in [*inputs, *sorted(names)]]
                rule = f"shapes must name inputs or open sizes; there is no {show(name)}"
                way_out = f"there are {', '.join(known) or 'none'}"
                if hint := suggest(name, known):
                    way_out += f"; {hint}"
                faults.append(Fault(field=f"shapes[{show(name)}]", rule=rule, way_out=way_out))
        if faults:
            raise DescriptionError(subject, faults)
        for name, size in self.bind(self._shapes, is_partial=True).items():
            self._shapes[name] = size

    def assume(self, names: Sequence[str]) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
        """A shape for each of these inputs, and what open sizes were taken for that nobody bound."""
        shapes, assumed = {}, {}
        for name in names:
            sizes = self._resolved(name, self._sizes)
            if sizes is None:
                rule = f"input {printable(name)!r} has no shape of its own, and must be given one"
                raise DescriptionError(
                    self._subject, Fault(field=name, rule=rule, way_out=f"such as {printable(name)}=2,3")
                )
            declared = self._inputs[name].shape or ()
            for i, size in enumerate(sizes):
                if size is None:
                    assumed[declared[i] or f"{name}[{i}]"] = ASSUMED
            shapes[name] = tuple(ASSUMED if size is None else size for size in sizes)
        return shapes, {str(name): size for name, size in assumed.items()}

    def resolve(self, shape: Sequence[Size] | None) -> tuple[Size, ...] | None:
        """A declared shape with the sizes that are bound."""
        return None if shape is None else tuple(self._sizes.get(n, n) if isinstance(n, str) else n for n in shape)

    def shown(self, name: str) -> tuple[Size, ...] | None:
        """An input's shape as far as it is bound."""
        return self._shapes[name] if name in self._shapes else self.resolve(self._inputs[name].shape)

    def known(self, names: Sequence[str]) -> dict[str, tuple[int, ...]] | None:
        """The shapes of these inputs, where every size is bound."""
        found = {}
        for name in names:
            sizes = self._resolved(name, self._sizes)
            if sizes is None or any(size is None for size in sizes):
                return None
            found[name] = tuple(size for size in sizes if size is not None)
        return found

    def bind(self, shapes: Mapping[str, tuple[int, ...]], *, is_partial: bool = False) -> dict[str, tuple[int, ...]]:
        """Check the shapes of a run's arrays against those declared.

        With `is_partial` what is found of named sizes holds from now on; else a size that nobody bound is not compared
        with others of its name, as ONNX Runtime does not either: models have one name for sizes that differ.
        """
        sizes = dict(self._sizes)
        for name, shape in shapes.items():
            wanted = self._inputs[name].shape if is_partial or name not in self._shapes else self._shapes[name]
            self._match(name, wanted, shape, sizes, learns=is_partial)
        if is_partial:
            self._sizes = sizes
        return dict(shapes)

    def differing(self, shapes: Mapping[str, tuple[int, ...]]) -> list[Fault]:
        """Sizes of a run's arrays that differ under one name: the likely reason of a failure."""
        sizes, faults = dict(self._sizes), list[Fault]()
        for name, shape in shapes.items():
            try:
                self._match(name, self._inputs[name].shape, shape, sizes, learns=True)
            except BindingError as error:
                faults += error.faults
        return faults

    def _match(
        self, name: str, wanted: Sequence[Size] | None, shape: tuple[int, ...], sizes: dict[str, int], *, learns: bool
    ) -> None:
        if wanted is None:
            return
        if len(wanted) != len(shape):
            self._refuse(name, f"must have {len(wanted)} dimensions, {_write(wanted)}", shape)
        for i, (size, found) in enumerate(zip(wanted, shape, strict=True)):
            if isinstance(size, int) and size != found:
                self._refuse(name, f"must have size {size} in dimension {i}", shape)
            if isinstance(size, str) and learns:
                sizes.setdefault(size, found)
            if isinstance(size, str) and sizes.get(size, found) != found:
                rule = f"must have size {sizes[size]} in dimension {i}: {printable(size)!r} is {sizes[size]}"
                self._refuse(name, rule, shape)

    def _resolved(self, name: str, sizes: Mapping[str, int]) -> list[int | None] | None:
        if name in self._shapes:
            return list(self._shapes[name])
        shape = self._inputs[name].shape
        return None if shape is None else [sizes.get(n) if isinstance(n, str) else n for n in shape]

    def _refuse(self, name: str, rule: str, shape: tuple[int, ...]) -> None:
        fault = Fault(field=name, rule=f"input {printable(name)!r} {rule}", value=shape, found=str(shape))
        raise BindingError(self._subject, fault)


def refuse_large(name: str, shape: Sequence[int]) -> Fault | None:
    """The fault of an input that has too many elements for shapes to depend on their values."""
    count = math.prod(shape)
    if count <= MOST_FOLDED:
        return None
    what = f"input '{printable(name)}' has {count}"
    rule = f"a shape must depend on inputs of at most {MOST_FOLDED} elements; {what}"
    return Fault(field=name, rule=rule, value=count)


def _is_size(value: object) -> bool:
    """Whether it is one number rather than a list of them."""
    try:
        operator.index(value)  # type: ignore[arg-type]  # that it may not be an index is what is asked
    except Exception:  # noqa: BLE001 - a hostile __index__ may raise anything
        return False
    return True


def _write(shape: Sequence[Size]) -> str:
    return "(" + ", ".join("?" if size is None else printable(str(size)) for size in shape) + ")"
