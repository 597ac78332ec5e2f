"""The windows of Conv and its kin, and of the pools, whose padding ONNX may leave to be found out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.errors import printable

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value


class Windows(NamedTuple):
    """The windows of a node, by spatial dimension."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    counts: tuple[int, ...]
    """How many there are."""
    past: tuple[int, ...]
    """How far the last of them reaches past the padding."""

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a function, with padding as far as windows reach."""
        ends = tuple(end + past for end, past in zip(self.ends, self.past, strict=True))
        return {
            "strides": self.strides, "dilations": self.dilations, "start_padding": self.starts, "end_padding": ends,
        }  # fmt: skip


def spatial(node: Node, name: str, count: int, usual: int, least: int) -> tuple[int, ...]:
    """An attribute of a number for each spatial dimension."""
    given = node.integers(name) if name in node.rules.attributes else None
    found = (usual,) * count if given is None else tuple(given)
    if len(found) != count or any(not least <= number < 2**31 for number in found):
        rule = f"{name} must be {count} numbers of at least {least}, one for each spatial dimension"
        node.refuse(name, rule, value=given, found=str(given))
    return found


def pads_of(node: Node, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each spatial dimension, as the attribute has it."""
    given = node.integers("pads") or [0] * (2 * count)
    if len(given) != 2 * count or any(not 0 <= pad < 2**31 for pad in given):
        rule = f"pads must be {2 * count} numbers of at least 0: the starts, then the ends"
        node.refuse("pads", rule, value=given, found=str(given))
    return tuple(given[:count]), tuple(given[count:])


def window_of(node: Node, x: Value, weights: Value | None = None) -> tuple[int, ...]:
    """The sizes of a window: those of the weights, or the attribute's."""
    if len(x.shape) < 3:
        name = node.rules.inputs[0].name
        node.refuse(name, f"{name} must have at least 3 dimensions", value=x.shape, found=str(x.shape))
    if weights is None:
        given = node.integers("kernel_shape")
        if given is None:
            node.refuse("kernel_shape", "kernel_shape must be given")
        return spatial(node, "kernel_shape", len(x.shape) - 2, 1, 1)
    if len(weights.shape) != len(x.shape):
        rule = f"the weights must have as many dimensions as the input, {len(x.shape)}"
        node.refuse("W", rule, value=weights.shape, found=str(weights.shape))
    return weights.shape[2:]


def padding_mode(node: Node) -> str:
    """auto_pad; an empty text is the default's, as exporters write it."""
    mode = node.text("auto_pad") or "NOTSET"
    if mode not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        rule = "auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID"
        node.refuse("auto_pad", rule, value=mode, found=printable(mode))
    return mode


def windows(node: Node, x: Value, size: tuple[int, ...]) -> Windows:
    """The windows that a node lays over its input."""
    count, sizes = len(size), x.shape[2:]
    strides, dilations = (spatial(node, name, count, 1, 1) for name in ("strides", "dilations"))
    reaches = [(n - 1) * by + 1 for n, by in zip(size, dilations, strict=True)]
    (starts, ends), mode = pads_of(node, count), padding_mode(node)
    rounds_up = "ceil_mode" in node.rules.attributes and bool(node.integer("ceil_mode", 0))
    if mode != "NOTSET":
        starts = ends = (0,) * count
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [-(-n // step) for n, step in zip(sizes, strides, strict=True)]
        walk = zip(wanted, strides, reaches, sizes, strict=True)
        pads = [max((n - 1) * step + reach - own, 0) for n, step, reach, own in walk]
        less, more = tuple(pad // 2 for pad in pads), tuple(pad - pad // 2 for pad in pads)
        starts, ends = (less, more) if mode == "SAME_UPPER" else (more, less)
    counts, past = [], []
    for own, step, reach, start, end in zip(sizes, strides, reaches, starts, ends, strict=True):
        room = own + start + end - reach
        number = (-(-room // step) if rounds_up else room // step) + 1
        if rounds_up and (number - 1) * step >= own + start:  # it would start in the padding
            number -= 1
        if room < 0 and number < 1:
            rule = f"a window reaches over {reach} elements, and must fit into the input with its padding"
            node.refuse("kernel_shape", rule, value=size, found=f"{own + start + end} elements")
        counts.append(number)
        past.append(max((number - 1) * step + reach - (own + start + end), 0))
    return Windows(size, strides, dilations, starts, ends, tuple(counts), tuple(past))
