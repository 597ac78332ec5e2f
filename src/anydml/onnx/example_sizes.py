"""Example sizes: numbers for a model's dynamic dimensions, for whoever checks, draws or tries it without inputs.

2 does for most models. A network with strides needs images that are large enough, and some take one batch alone: so
assignments are tried in order until nodes agree about one. A model is at fault where it is with all of them.
"""

from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydml.core.errors import DmlError, DynamicSizesError, Fault, printable
from anydml.onnx.lower.refusals import Why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anydml.onnx.ir import Size
    from anydml.onnx.lower.trace import Trace

FIRST = 2
"""The size that is tried first: 0 and 1 are indices into it, and broadcasting does not hide it."""
_SIZES = (224, 32, 1, 48, 320, 512, 640, 1024, 16_000)
"""What is tried then: of images and lines of text, of sequences and sound, and one step of a decoder."""
_BATCH = re.compile(r"bs|.*batch.*", re.IGNORECASE)
_HINTS = ("imgsz", "input_size", "image_size", "img_size")
"""Keys of a model's metadata by which exporters say what images it was made for."""
_LARGEST_HINT = 4096

_PLAIN = re.compile(r"[\w.]+")
"""Names of sizes that a shell takes as they are."""

Assignment: TypeAlias = "dict[str, int]"


class _Use(NamedTuple):
    """Where an input has a dynamic size."""

    axis: int
    rank: int


def assignments(shapes: Sequence[Sequence[Size] | None], metadata: Mapping[str, str]) -> Iterator[Assignment]:
    """Numbers for the dynamic sizes of shapes, the likeliest first, none of them twice."""
    uses: dict[str, list[_Use]] = {}
    for shape in shapes:
        for axis, size in enumerate(shape or ()):
            if isinstance(size, str):
                uses.setdefault(size, []).append(_Use(axis, len(shape or ())))
    seen: list[Assignment] = []
    for assignment in itertools.chain([dict.fromkeys(uses, FIRST)], _later(uses, _hinted(metadata))):
        if assignment not in seen:
            seen.append(assignment)
            yield assignment


def _later(uses: Mapping[str, Sequence[_Use]], hints: Sequence[int]) -> Iterator[Assignment]:
    """Batches of one, and of the other sizes either all, or those of the last axes, of a length."""
    varied: tuple[Callable[[str], bool], ...] = (
        lambda name: not _is_batch(name, uses[name]),
        lambda name: not _is_batch(name, uses[name]) and any(use.axis >= min(2, use.rank - 1) for use in uses[name]),
    )
    for varies in varied:
        for size in (*hints, *_SIZES):
            yield {name: size if varies(name) else 1 for name in uses}


def _is_batch(name: str, uses: Sequence[_Use]) -> bool:
    return _BATCH.fullmatch(name) is not None or all(use.axis == 0 and use.rank > 1 for use in uses)


def _hinted(metadata: Mapping[str, str]) -> list[int]:
    """The sizes of images that a model's metadata tells, as `imgsz: [640, 640]`."""
    told = " ".join(metadata[key] for key in _HINTS if key in metadata)
    return [size for text in re.findall(r"\d{1,5}", told) if 0 < (size := int(text)) <= _LARGEST_HINT][:2]


_MOST_TOLD = 6


def told(assumed: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> str:
    """What sizes were assumed, and what to type for others."""
    return f"assumed {_listed(assumed)} for dynamic dimensions; set them with {options(assumed, shapes)}"


def _listed(assumed: Mapping[str, int]) -> str:
    sizes = [f"{printable(name)}={size}" for name, size in assumed.items()]
    more = f" and {len(sizes) - _MOST_TOLD} more" if len(sizes) > _MOST_TOLD else ""
    return ", ".join(sizes[:_MOST_TOLD]) + more


def options(assumed: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> str:
    """What to type for these sizes: by their names, or whole shapes where some have none."""
    if all(_PLAIN.fullmatch(name) for name in assumed):
        given = [f"{name}={size}" for name, size in assumed.items()]
    else:
        given = [f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items() if shape]
    if len(given) > _MOST_TOLD:
        return "--shape NAME=SIZES"
    return " ".join(f"--shape {shlex.quote(printable(text))}" for text in given)


# Which of them a model runs with


class Example(NamedTuple):
    """Sizes, and what a trace makes of them."""

    shapes: dict[str, tuple[int, ...]]
    assumed: Assignment
    """The sizes among them that nobody gave."""
    trace: Trace
    doubtful: frozenset[tuple[str, str]] = frozenset()
    """The labels and texts of its faults that other sizes do not have: none of those tried has none."""


def find_example(
    candidates: Iterable[tuple[dict[str, tuple[int, ...]], Assignment]],
    trace: Callable[[dict[str, tuple[int, ...]]], Trace],
) -> Example:
    """The first candidate without a fault, or the one with fewest; a fault of every candidate is the model's own."""
    found: list[tuple[frozenset[tuple[str, str]], Example]] = []
    for shapes, assumed in candidates:
        try:
            example = Example(shapes, assumed, trace(shapes))
        except DmlError:
            if not found:
                raise
            continue
        faults = frozenset(
            (record.label, str(record.refusal.error))
            for record in example.trace.records
            if record.refusal is not None and record.refusal.why is Why.RULE
        )
        if not faults:
            return example
        found.append((faults, example))
        if len(found) == 2 and faults == found[0][0]:
            break  # of sizes that all differ: it is not they
    least, best = min(found, key=lambda one: len(one[0]))
    return best._replace(doubtful=least - frozenset.intersection(*(faults for faults, _ in found)))


def refuse_doubtful(subject: str, example: Example) -> DynamicSizesError:
    """The error of a model whose sizes must be given."""
    rule = "the sizes of its dynamic dimensions must be given: with those that were tried nodes do not fit together"
    label, why = min(example.doubtful)
    found = f"{label} refuses {_listed(example.assumed)}: {why}"
    way_out = f"give those that it is made for, as in {options(example.assumed, example.shapes)}"
    return DynamicSizesError(subject, Fault(field="shapes", rule=rule, found=found, way_out=way_out))
