"""Example sizes: numbers for a model's dynamic dimensions, for whoever checks, draws or tries it without inputs.

2 does for most models, and nobody has images of 2 x 2: theirs are as large as the metadata says, or as most are. A
network with strides needs images that are large enough, and some take one batch alone: so
likely sizes are tried in order until nodes agree about one. Where nodes refuse all of those, the sizes that they ask
for are computed: a node is lowered with symbolic sizes, which note what was found of them, and sizes are looked for of
which the opposite is found. A model is at fault where a node refuses all of them for the same reason.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydml.core.errors import DmlError, DynamicSizesError, Fault, printable
from anydml.core.guards import Tape
from anydml.onnx.lower.refusals import Why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.core.guards import Finding
    from anydml.onnx.lower.trace import Record, Trace

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
Shapes: TypeAlias = "dict[str, tuple[int, ...]]"


class _Use(NamedTuple):
    """Where an input has a dynamic size."""

    axis: int
    rank: int


@dataclass(frozen=True, slots=True)
class Examples:
    """Inputs whose dynamic sizes are to have numbers."""

    shapes: Mapping[str, Sequence[int | str]]
    """By the inputs' names; a text is the name of a dynamic size."""
    metadata: Mapping[str, str]
    """The model's own."""

    def fill(self, assignment: Mapping[str, int]) -> Shapes:
        """The shapes with numbers in them."""
        return {
            name: tuple(assignment[size] if isinstance(size, str) else size for size in shape)
            for name, shape in self.shapes.items()
        }

    def assignments(self) -> Iterator[Assignment]:
        """Numbers for the dynamic sizes, the likeliest first, none of them twice."""
        seen: list[Assignment] = []
        uses = self._uses()
        total = self._total()
        for assignment in itertools.chain(self._of_images(uses), [dict.fromkeys(uses, FIRST)], self._later(uses)):
            if total is not None:
                assignment[total[0]] = sum(assignment.get(part, 0) for part in total[1:])
            if assignment not in seen:
                seen.append(assignment)
                yield assignment

    def _total(self) -> tuple[str, str, str] | None:
        """Of a language model, the size that is the sum of two: its mask is as long as what is new and what is past."""
        mask, new = (tuple(self.shapes.get(name, ()))[-1:] for name in ("attention_mask", "input_ids"))
        past = {shape[2] for name, shape in self.shapes.items() if name.startswith("past") and len(shape) == 4}
        sizes = (*mask, *new, *past)
        if len(set(sizes)) != 3 or not all(isinstance(size, str) for size in sizes):
            return None
        return tuple(map(str, sizes))  # type: ignore[return-value]  # of three

    def is_batch(self, name: str) -> bool:
        """Whether a dynamic size is one of batches, by its name or its place."""
        return _is_batch(name, self._uses()[name])

    @property
    def has_images(self) -> bool:
        """Whether the first sizes are those of images."""
        return any(True for _ in self._of_images(self._uses()))

    def _uses(self) -> dict[str, list[_Use]]:
        found: dict[str, list[_Use]] = {}
        for shape in self.shapes.values():
            for axis, size in enumerate(shape):
                if isinstance(size, str):
                    found.setdefault(size, []).append(_Use(axis, len(shape)))
        return found

    def _of_images(self, uses: Mapping[str, Sequence[_Use]]) -> Iterator[Assignment]:
        """Where inputs are images whose heights or widths are dynamic: those of a likely size, in batches of one."""
        hints = _hinted(self.metadata) or [_SIZES[0]]
        sizes = {0: hints[0], 1: hints[-1]}
        found: dict[str, int] = {}
        for shape in self.shapes.values():
            for side, axis in enumerate(_sides(shape, is_alone=len(self.shapes) == 1)):
                name = shape[axis]
                if isinstance(name, str) and all(use.rank == 4 and use.axis in (1, 2, 3) for use in uses[name]):
                    found[name] = sizes[side]
        if found:
            yield {name: found.get(name, 1 if _is_batch(name, uses[name]) else FIRST) for name in uses}

    def _later(self, uses: Mapping[str, Sequence[_Use]]) -> Iterator[Assignment]:
        """Batches of one, and of the other sizes either all, or those of the last axes, of a length."""
        hints = _hinted(self.metadata)
        if len(hints) > 1:  # of an image's height and width
            places = dict(zip(((2, 4), (3, 4)), hints, strict=True))
            yield {name: next((places[use] for use in several if use in places), 1) for name, several in uses.items()}
        varied: tuple[Callable[[str], bool], ...] = (
            lambda name: not _is_batch(name, uses[name]),
            lambda name: not _is_batch(name, uses[name]) and any(u.axis >= min(2, u.rank - 1) for u in uses[name]),
        )
        for varies in varied:
            for size in (*hints, *_SIZES):
                yield {name: size if varies(name) else 1 for name in uses}


def _sides(shape: Sequence[int | str], *, is_alone: bool) -> tuple[int, ...]:
    """The axes of an image's height and width, by its channels: three, or one of a model that reads nothing else."""
    channels = (3, 1) if is_alone else (3,)
    if len(shape) == 4 and shape[1] in channels:
        return 2, 3
    return (1, 2) if len(shape) == 4 and shape[3] in channels else ()


def _is_batch(name: str, uses: Sequence[_Use]) -> bool:
    return _BATCH.fullmatch(name) is not None or all(use.axis == 0 and use.rank > 1 for use in uses)


def _hinted(metadata: Mapping[str, str]) -> list[int]:
    """The sizes of images that a model's metadata tells, as `imgsz: [640, 640]`."""
    told = " ".join(metadata[key] for key in _HINTS if key in metadata)
    return [size for text in re.findall(r"\d{1,5}", told) if 0 < (size := int(text)) <= _LARGEST_HINT][:2]


_MOST_TOLD = 6


def told(assumed: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> str:
    """What sizes were assumed, and what to type for others."""
    return f"Assumed {_listed(assumed)} for dynamic dimensions; set them with {options(assumed, shapes)}"


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

    shapes: Shapes
    assumed: Assignment
    """The sizes among them that nobody gave."""
    trace: Trace
    doubtful: frozenset[tuple[str, str]] = frozenset()
    """The labels and texts of its faults that other sizes do not have: none of those tried has none."""

    @property
    def faults(self) -> frozenset[tuple[str, str]]:
        """The labels and texts of the rules that it breaks."""
        return frozenset((record.label, str(_refusal(record))) for record in self.trace.records if _is_faulty(record))

    @property
    def reached(self) -> int:
        """How many nodes come before the first that breaks a rule."""
        records = self.trace.records
        return next((k for k, record in enumerate(records) if _is_faulty(record)), len(records))

    @property
    def first_fault(self) -> str:
        """The text of the first rule that is broken."""
        return next((str(_refusal(record)) for record in self.trace.records if _is_faulty(record)), "")


def _is_faulty(record: Record) -> bool:
    return record.refusal is not None and record.refusal.why is Why.RULE


def _refusal(record: Record) -> DmlError | None:
    return None if record.refusal is None else record.refusal.error


def find_example(examples: Examples, trace: Callable[[Shapes], Trace]) -> Example:
    """The first sizes without a fault, or those with fewest; a fault of all that were tried is the model's own."""
    found: list[Example] = []
    for assumed in examples.assignments():
        shapes = examples.fill(assumed)
        try:
            example = Example(shapes, assumed, trace(shapes))
        except DmlError:
            if not found:
                raise
            continue
        if not example.faults:
            return example
        found.append(example)
        if (
            2 <= len(found) <= (3 if examples.has_images else 2)
            and example.faults == found[-2].faults
            and _all_differ(*found[-2:])
        ):
            break  # these are not the sizes to try
    if found[0].assumed:  # with none there is nothing to look for
        likely = [*found[1:], found[0]]  # the first are small
        found += _solved(examples, trace, max(likely, key=lambda one: (one.reached, -len(one.faults))))
    best = min(found, key=lambda one: len(one.faults))
    return best._replace(doubtful=best.faults - frozenset.intersection(*(one.faults for one in found)))


def _all_differ(one: Example, other: Example) -> bool:
    return all(size != other.assumed[name] for name, size in one.assumed.items())


# Sizes that nodes ask for


_MOST_TRACES = 24
"""How often a model is traced for it: each size that a node asks for takes one or two."""
_MOST_TRIED = 6
"""Of what was found last for a node, which its fault is likely to come of."""
_LONGEST = 65_536
_WIDEST = 96
"""The sizes up to which all are tried: of one, and of two at a time."""


def _solved(examples: Examples, trace: Callable[[Shapes], Trace], start: Example) -> list[Example]:
    """The sizes that nodes ask for, one after the other, as far as that led."""
    made: list[Example] = []
    best, has_improved, seen = start, True, {start.first_fault}
    while has_improved and len(made) < _MOST_TRACES:
        has_improved = False
        for assumed in _asked_for(examples, trace, best):
            shapes = examples.fill(assumed)
            try:
                made.append(example := Example(shapes, assumed, trace(shapes)))
            except DmlError:
                continue
            if not example.faults:
                return made
            if example.reached > best.reached or (
                example.reached == best.reached and example.first_fault not in seen  # a node may ask for several sizes
            ):
                best, has_improved = example, True
                seen.add(example.first_fault)
                break
            if len(made) >= _MOST_TRACES:
                break
    return made


def _asked_for(examples: Examples, trace: Callable[[Shapes], Trace], example: Example) -> Iterator[Assignment]:
    """Sizes with which the first node that breaks a rule may not break it, those before it going on as they do."""
    tape = Tape()
    names = list(example.assumed)
    symbols = {name: tape.open(size) for name, size in example.assumed.items()}
    try:
        with tape.recording():
            records = trace(examples.fill(symbols)).records  # type: ignore[arg-type]  # as good as numbers
    except DmlError:
        return
    faulty = next((k for k, record in enumerate(records) if _is_faulty(record)), None)
    if faulty is None:
        return
    before = records[faulty - 1].taped if faulty else 0
    path = tape.findings(0, before)
    for finding in tape.findings(before, records[faulty].taped)[: -_MOST_TRIED - 1 : -1]:
        yield from _turned(examples, tape, finding, path, [example.assumed[name] for name in names], names)


def _turned(
    examples: Examples, tape: Tape, finding: Finding, path: Sequence[Finding], now: Sequence[int], names: Sequence[str]
) -> Iterator[Assignment]:
    """The first sizes of which the opposite is found, and for the nodes before the same as now."""
    asked, holds = tape.condition(finding._replace(is_so=not finding.is_so))
    _, goes_on = tape.condition(*path)
    batches = {number for number, name in enumerate(names) if examples.is_batch(name)}
    first: list[int] | None = None
    for sizes in _varied(now, sorted(asked), batches):
        try:
            if not holds(*sizes):
                continue
            first = first or sizes
            if goes_on(*sizes):
                yield dict(zip(names, sizes, strict=True))
                return
        except ArithmeticError:
            continue
    if first is not None:  # a size that NumPy was told is no other, as the tape has it, and may be another all the same
        yield dict(zip(names, first, strict=True))


def _varied(now: Sequence[int], asked: Sequence[int], batches: set[int]) -> Iterator[list[int]]:
    """Sizes of which some are others: those but batches as one, each of them, and two of them; batches of 1 first."""
    free = [k for k in asked if k not in batches]
    groups = [group for group in (free, *([k] for k in reversed(free))) if group]
    groups += [[k] for k in asked if k in batches]
    one = [1 if k in batches else size for k, size in enumerate(now)]
    for group, base in itertools.product(groups, [one] if one == list(now) else [one, now]):
        for size in range(1, _LONGEST + 1):
            yield [size if k in group else other for k, other in enumerate(base)]
    for pair in itertools.combinations(asked, 2):
        for two in sorted(itertools.product(range(1, _WIDEST + 1), repeat=2), key=math.prod):
            yield [two[pair.index(k)] if k in pair else other for k, other in enumerate(now)]


def refuse_doubtful(subject: str, example: Example) -> DynamicSizesError:
    """The error of a model whose sizes must be given."""
    rule = "no sizes were found for its dynamic dimensions with which its nodes fit together"
    label, why = min(example.doubtful)
    tried = f"with {options(example.assumed, example.shapes)}"  # as it is typed, and once
    found = f"{tried} {why if why.startswith(label) else f'{label}: {why}'}"
    way_out = "pass those that it is made for in their place"
    return DynamicSizesError(subject, Fault(field="shapes", rule=rule, found=found, way_out=way_out))
