"""A node of a model as a lowering sees it: its attributes, and its inputs as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from anydml.core.display import listed
from anydml.core.errors import Fault, ModelError, UnsupportedError, show
from anydml.onnx.library import node_rules
from anydml.onnx.lower.values import check_dimensions
from anydml.onnx.tensors import decode_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.library import NodeRules
    from anydml.onnx.lower.tracer import Tracer
    from anydml.onnx.lower.values import Value


_MOST_NUMBERS = 65_536
"""Of a list of bounds, axes or sizes: more than a node has use for."""
_FEW = 3
"""Texts that an attribute may have, but for one, up to which a rule reads as a sentence."""


class BoundNode:
    """A node whose inputs are bound to values; None stands for an optional one that is left out."""

    def __init__(
        self,
        origin: Node,
        version: int,
        inputs: Sequence[Value | None],
        tracer: Tracer,
        inline: Callable[[Graph, str], list[Value | None]] | None = None,
    ) -> None:
        self.origin, self.version, self.tracer = origin, version, tracer
        self._inline = inline
        self.kind, self.label = origin.kind, origin.label
        self.outputs = origin.output
        """Their names, which are empty for those that nobody asks for."""
        self._inputs = list(inputs)
        self.attributes = {attribute.name: attribute for attribute in origin.attribute}

    @property
    def inputs(self) -> list[Value]:
        """Every input, of which none may be left out."""
        return [self.input(i) for i in range(len(self._inputs))]

    @property
    def input_count(self) -> int:
        """How many inputs it has, those that are left out included."""
        return len(self._inputs)

    @property
    def output_count(self) -> int:
        """How many outputs it has, those that nobody names at the end left out."""
        return len(self.outputs)

    def input(self, index: int) -> Value:
        """An input that must be there."""
        found = self.optional(index)
        if found is None:
            self.refuse(f"inputs[{index}]", f"inputs[{index}] must be given")
        return found

    def optional(self, index: int) -> Value | None:
        """An input that may be left out."""
        return self._inputs[index] if index < len(self._inputs) else None

    def numbers(self, index: int, name: str, *, may_be_scalar: bool = False) -> list[int]:
        """An input of whole numbers in a row, which must be known."""
        found = self.input(index)
        if len(found.shape) != 1 and not (may_be_scalar and not found.shape):
            self.refuse(name, f"{name} must have 1 dimension", value=found.shape)
        if found.count > _MOST_NUMBERS:
            self.refuse(name, f"{name} must have at most 2^16 = {_MOST_NUMBERS} numbers", value=found.count)
        return found.ints(name)

    def sizes(self, index: int, name: str) -> list[int]:
        """An input that is a shape: no more sizes than a tensor has dimensions, before any of them is looked at."""
        found = self.input(index)
        if len(found.shape) == 1:
            check_dimensions(found.count, self.label, name)
        return self.numbers(index, name)

    # Attributes

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.attributes

    @property
    def rules(self) -> NodeRules:
        """ONNX's rules for its type."""
        found = node_rules(self.kind, self.version)
        assert found is not None  # noqa: S101 - for type checkers: nothing else is lowered
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number; without a default, ONNX's or the one here, it must be given."""
        found: int | None = self._attribute(name, "INT")
        if found is not None:
            return found
        if default is None:
            self.refuse(name, f"{name} must be given")
        return default

    def integers(self, name: str) -> list[int] | None:
        """A list of whole numbers; None where it is not given."""
        found = self._attribute(name, "INTS")
        return None if found is None else list(found)

    def real(self, name: str) -> float:
        """A number, which must be given where ONNX has no default."""
        return float(self._required(name, "FLOAT"))

    def reals(self, name: str) -> list[float]:
        """A list of numbers, which must be given."""
        return list(self._required(name, "FLOATS"))

    def text(self, name: str) -> str:
        """A text, which must be given where ONNX has no default."""
        return bytes(self._required(name, "STRING")).decode(errors="replace")

    def texts(self, name: str) -> list[str]:
        """A list of texts; none where it is not given."""
        return [bytes(one).decode(errors="replace") for one in self._attribute(name, "STRINGS") or ()]

    def tensor(self, name: str) -> Value | None:
        """A tensor, known; None where it is not given."""
        found = self._attribute(name, "TENSOR")
        return None if found is None else decode_tensor(found, self.label, name, self.tracer.beside)

    def inline(self, name: str) -> list[Value | None]:
        """The results of a graph that is an attribute, whose nodes are put in the place of this one."""
        graph: Graph = self._required(name, "GRAPH")
        if len(graph.output) != self.output_count:
            rule = f"{name} must have as many outputs as the node, {self.output_count}"
            self.refuse(name, rule, value=len(graph.output))
        if self._inline is None:
            self.unsupported(name, f"{name} cannot be put in place here")
        return self._inline(graph, name)

    def _required(self, name: str, kind: str) -> Any:
        found = self._attribute(name, kind)
        if found is None:
            self.refuse(name, f"{name} must be given")
        return found

    def _attribute(self, name: str, kind: str) -> Any:
        """The value of an attribute, or ONNX's default; None where there is neither."""
        found = self.attributes.get(name) or self.rules.defaults.get(name)
        if found is not None and found.kind != kind:
            self.refuse(name, f"{name} must be of {kind}", found=found.kind)
        return None if found is None else found.value

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """An axis of a tensor of that rank, negative from the end."""
        if not -rank <= axis < rank:
            rule = f"{what} must lie in {-rank} .. {rank - 1}" if rank else f"{what}: a scalar has no axes"
            self.refuse(what, rule, value=axis)
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Several axes, each once."""
        found = [self.axis(axis, rank, f"axes[{i}]") for i, axis in enumerate(axes)]
        if len(set(found)) < len(found):
            self.refuse("axes", "axes must name each axis once", value=axes)
        return found

    # Rules that many node types have

    def one_of(self, name: str, known: Collection[str], default: str | None = None) -> str:
        """A text attribute, which must be one of several; the default where the type has no such attribute."""
        found = self.text(name) if default is None or name in self.rules.attributes else default
        if found not in known:
            few = listed(known) if len(known) <= _FEW else f"one of {', '.join(known)}"
            self.refuse(name, f"{name} must be {few}", value=found)
        return found

    def one_number(self, index: int, name: str) -> Value | None:
        """An input of one element, in whatever shape; None where it is left out."""
        found = self.optional(index)
        if found is not None and found.count != 1:
            self.refuse(name, f"{name} must be one number", value=found.shape)
        return found

    def check_rank(self, name: str, value: Value, *ranks: int, least: int = 0, why: str = "") -> None:
        """Refuse another number of dimensions than one of these, or less than the least; `why` follows them."""
        if len(value.shape) < least or (ranks and len(value.shape) not in ranks):
            wanted = " or ".join(map(str, ranks)) or f"at least {least}"
            self.refuse(name, f"{name} must have {wanted} dimension{'s' * (wanted != '1')}{why}", value=value.shape)

    def check_shape(self, name: str, value: Value | None, *shapes: tuple[int, ...], why: str = "") -> None:
        """Refuse another shape than one of these, of an input that may be left out; `why` follows them."""
        if value is not None and value.shape not in shapes:
            rule = f"{name} must have the shape {' or '.join(map(str, shapes))}{why}"
            self.refuse(name, rule, value=value.shape)

    # Errors

    def refuse(self, field: str, rule: str, *, value: object = None, found: str = "") -> NoReturn:
        """Say that a rule is broken, by the value that is found or by other words for it."""
        found = found or ("" if value is None else show(value))
        raise ModelError(self.label, Fault(field=field, rule=rule, value=value, found=found))

    def unsupported(self, field: str, rule: str, way_out: str = "") -> NoReturn:
        """Say that something is not supported."""
        raise UnsupportedError(self.label, Fault(field=field, rule=rule, way_out=way_out))
