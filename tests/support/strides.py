"""Verbs whose tensors lie in every way, between pages that end the process when they are touched.

The works are those of the case table, and of a few graphs whose constants are laid out ahead: what the engine was asked
to compile for them. Each is compiled again with a tensor's strides negative, odd, huge or 0, and runs on memory that
has its views' elements, canaries between them and nothing around: the answers are the reference's, and the canaries
stay. As a script it says before each what comes next, so that a crash has a name:

    python tests/support/strides.py cpu 8      # one in eight of the works and layouts; 1 for all
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import importlib
import itertools
import math
import mmap
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np

import anydml as dml
from anydml.core.memory import numpy_view
from anydml.engines import find_engine
from anydml.engines.common.engine import Engine
from anydml.engines.common.routes import Route
from anydml.engines.cpu.families import figures
from anydml.engines.cuda import is_interpreted
from anydml.graph.passes import constant_folding as constants
from anydml.ir.trees import walk
from anydml.ir.verbs import IndexFault, Map, Reduce, Repeat, Scan
from cases import CASES
from places import get_bytes, is_on_gpu, put_bytes
from tests.conftest import pytest_configure
from tests.operators.test_weights import Weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View
    from case_kinds import Case

Array = np.ndarray[Any, Any]
OFFSET = 5
"""Elements from a tensor's address to its memory: who leaves an offset out reads the page before it."""
FAR = 2**32 + 64
"""Bytes, more than 32 bits hold."""
NO_RESERVE = 0x4000
"""As Linux has it; Python names it from 3.13 on."""
CANARY = 0xFF
"""What lies between elements: NaN, as a float."""
AROUND = 256
"""Bytes of canaries before and behind a tensor on a GPU, which has no pages to guard it."""


class Work(NamedTuple):
    """Verbs that are one program together, and the tensors that never change."""

    primitives: tuple[Primitive, ...]
    constants: frozenset[str] = frozenset()

    @property
    def views(self) -> dict[str, list[View]]:
        """By tensor, those that are not handed on from verb to verb alone."""
        inner = {view.tensor for one in self.primitives[:-1] for view in one.targets} - self.written
        found: dict[str, list[View]] = {}
        for view in itertools.chain.from_iterable(one.views for one in self.primitives):
            if view.tensor not in inner and view not in found.setdefault(view.tensor, []):
                found[view.tensor].append(view)
        return found

    @property
    def written(self) -> set[str]:
        """The tensors that hold the result."""
        return {view.tensor for view in self.primitives[-1].targets}

    def changed(self, tensor: str, change: Callable[[View], View]) -> Work:
        """The same with the views of a tensor changed."""

        def one(view: View) -> View:
            return change(view) if view.tensor == tensor else view

        return self._replace(primitives=tuple(verb.reading(one).writing(one) for verb in self.primitives))


# Layouts


@dataclass(frozen=True, slots=True)
class Layout:
    """How the dimensions of a view lie in memory, from the nearest elements to the farthest."""

    step: int = 1
    """From element to element of the innermost."""
    gap: int = 0
    """Elements behind each row."""
    back: str = ""
    """Which dimensions run backwards: the inner one, the outer ones, or all."""
    is_turned: bool = False
    """Whether the outermost lies innermost."""
    is_far: bool = False
    """Whether the outermost has steps of more than 32 bits."""
    repeated: str = ""
    """Which dimensions have a stride of 0: the inner one, the outermost, or all."""

    def of(self, view: View) -> View:
        """A view of the same sizes; dimensions of stride 0 keep it."""
        inner = sorted((k for k, stride in enumerate(view.strides) if stride), key=lambda k: abs(view.strides[k]))
        if self.is_turned:
            inner.reverse()
        chosen = {"inner": inner[:1], "outer": inner[1:], "all": inner}
        strides, far = [0] * len(view.sizes), self.step
        for number, k in enumerate(inner):
            if self.is_far and k == inner[-1]:
                far = max(far, FAR // view.data_type.size_in_bytes)
            strides[k] = -far if k in chosen.get(self.back, ()) else far
            far = far * view.sizes[k] + (0 if number else self.gap)
        for k in (chosen | {"outer": inner[-1:]}).get(self.repeated, ()):
            strides[k] = 0
        return moved(replace(view, strides=tuple(strides), offset=0))[0]


LAYOUTS = {
    "backwards": Layout(back="all"),
    "rows backwards": Layout(back="inner"),
    "rows from the last": Layout(back="outer"),
    "every third": Layout(step=3),
    "every second, backwards": Layout(step=2, back="inner"),
    "uneven rows": Layout(gap=1),
    "uneven rows backwards": Layout(gap=3, back="inner"),
    "turned": Layout(is_turned=True),
    "turned, backwards": Layout(is_turned=True, back="all", gap=1),
    "far apart": Layout(is_far=True),
    "far apart, backwards": Layout(is_far=True, back="all"),
    "one row": Layout(repeated="outer"),
    "one column": Layout(repeated="inner"),
    "one element": Layout(repeated="all"),
}
FACTORS = {"backwards": -1, "every third": 3, "every second, backwards": -2}
"""For tensors that several views see, and for windows that overlap: all strides of all views by as much."""


def bounds(view: View) -> tuple[int, int]:
    """The first and the last element, from the tensor's address on."""
    reaches = [(size - 1) * stride for size, stride in zip(view.sizes, view.strides, strict=True)]
    return view.offset + sum(min(r, 0) for r in reaches), view.offset + sum(max(r, 0) for r in reaches)


def moved(*views: View) -> list[View]:
    """Views with the first element of all OFFSET behind the tensor's address."""
    first = min(bounds(view)[0] for view in views)
    return [replace(view, offset=view.offset - first + OFFSET) for view in views]


def overlaps(view: View) -> bool:
    """Whether two places may be one element, dimensions of stride 0 aside."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for stride, size in zip(view.strides, view.sizes, strict=True)):
        if stride and stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def laid_out(work: Work, tensor: str, name: str) -> Work | None:
    """The same work with a tensor in a layout; None where it cannot lie so."""
    views = work.views[tensor]
    if len(views) == 1 and not overlaps(views[0]):
        if not any(views[0].strides) or (LAYOUTS[name].repeated and tensor in work.written):
            return None
        made = [LAYOUTS[name].of(views[0])]
    elif name in FACTORS:
        by = FACTORS[name]
        made = moved(
            *(replace(one, strides=tuple(by * s for s in one.strides), offset=by * one.offset) for one in views)
        )
    else:
        return None
    return work.changed(tensor, dict(zip(views, made, strict=True)).__getitem__)


def laid_out_all(work: Work, name: str) -> Work:
    """All tensors that can, in a layout."""
    for tensor in work.views:
        work = laid_out(work, tensor, name) or work
    return work


def enlarged(work: Work, size: int) -> Work | None:
    """The same with every dimension of more than one element so large, packed; None where sizes have a meaning."""
    verb = work.primitives[0]
    if len(work.primitives) > 1 or type(verb) not in (Map, Reduce, Scan):
        return None
    if verb.checks or any(map(overlaps, verb.views)):
        return None
    if any(node.op in ("coordinate", "fetch") for node in walk(*verb.values)) or len({*verb.views}) < len(work.views):
        return None

    def larger(view: View) -> View:
        sizes = tuple(size + k if n > 1 else n for k, n in enumerate(view.sizes))
        return Layout().of(replace(view, sizes=sizes))

    sizes = tuple(size + k if n > 1 else n for k, n in enumerate(verb.sizes))
    if math.prod(sizes) > size**3:
        return None
    made = verb.reading(larger).writing(larger)
    if isinstance(made, Reduce):
        made = replace(made, rows=sizes[len(sizes) - made.depth :])
    return work._replace(primitives=(made,))


# Memory


class Held:
    """The memory of a tensor's views and no more, between pages that end the process."""

    def __init__(self, views: Sequence[View], *, at_end: bool) -> None:
        self.views = views
        reaches = [(bounds(view), view.data_type.size_in_bytes) for view in views]
        low = min(first * width for (first, _), width in reaches)
        self.size = max((last + 1) * width for (_, last), width in reaches) - low
        page = mmap.PAGESIZE
        inner = -(-self.size // page) * page
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
        self.map = mmap.mmap(-1, inner + 2 * page, flags)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (start, start + page + inner):
            assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        self.begin = start + page + (inner - self.size if at_end else 0)
        self.place = self.begin - low
        """The tensor's address."""
        for piece in self.pieces():
            piece[...] = CANARY

    def arrays(self) -> Iterator[Array]:
        """The views' elements."""
        for view in self.views:
            first = self.place + view.offset * view.data_type.size_in_bytes
            yield numpy_view(first, view.sizes, view.strides, view.data_type.dtype)

    def pieces(self) -> list[Array]:
        """All bytes, or those around elements where those lie far apart."""
        if self.size < FAR:
            return [bytes_at(self.begin, self.begin + self.size)]
        found = []
        for array in self.arrays():
            axis = int(np.argmax(np.abs(array.strides)))
            for i in range(array.shape[axis]):
                one = array[(*[slice(None)] * axis, slice(i, i + 1))]
                low, high = np.lib.array_utils.byte_bounds(one)
                found.append(bytes_at(max(low - 64, self.begin), min(high + 64, self.begin + self.size)))
        return found


def bytes_at(low: int, high: int) -> Array:
    """The bytes between two addresses."""
    return numpy_view(low, (high - low,), (1,), np.dtype(np.uint8))


class Memories:
    """All tensors of some work, each in memory of its own, with small whole numbers, of which every sum is exact."""

    def __init__(self, work: Work, *, at_end: bool, most: int) -> None:
        self.at_end = at_end
        self.held = {name: Held(views, at_end=at_end) for name, views in work.views.items()}
        for seed, held in enumerate(self.held.values()):
            rng = np.random.default_rng(seed)
            for view, array in zip(held.views, held.arrays(), strict=True):
                sizes = [size if stride else 1 for size, stride in zip(view.sizes, view.strides, strict=True)]
                low = -most if array.dtype.kind == "f" else min(most, 1)
                array[...] = rng.integers(low, most + 1, sizes).astype(array.dtype)

    @property
    def places(self) -> dict[str, int]:
        """The tensors' addresses."""
        return {name: held.place for name, held in self.held.items()}

    def add(self, views: Sequence[View]) -> None:
        """Memory for what is handed on."""
        for name in {view.tensor for view in views} - self.held.keys():
            self.held[name] = Held([view for view in views if view.tensor == name], at_end=self.at_end)


@contextlib.contextmanager
def on_device(engine: str, memories: Memories) -> Iterator[dict[str, int]]:
    """The tensors' addresses where an engine works: on a GPU those of copies, which come back with their canaries."""
    if not is_on_gpu(engine):
        yield memories.places
        return
    there = {}
    for name, held in memories.held.items():
        around = np.full(AROUND, CANARY, np.uint8)
        there[name] = put_bytes(np.concatenate([around, *held.pieces(), around]))
    yield {name: held.place - held.begin + there[name].data_ptr() + AROUND for name, held in memories.held.items()}
    for name, held in memories.held.items():
        back = np.frombuffer(get_bytes(there[name]), np.uint8)
        assert all((part == CANARY).all() for part in (back[:AROUND], back[-AROUND:])), f"{name} is written outside"
        held.pieces()[0][...] = back[AROUND:-AROUND]


# Running


def run(engine: str, work: Work, memories: Memories) -> bool:
    """Run it as the runtime does, layouts of constants first; False where no way takes the verbs together."""
    found = find_engine(engine)
    is_one = len(work.primitives) == 1
    program = found.compile(work.primitives[0], work.constants) if is_one else found.join(*work)
    if program is None:
        return False
    layouts = [replace(one, target=one.target.named(name)) for name, one in program.layouts.items()]
    memories.add([layout.target for layout in layouts])
    with on_device(engine, memories) as places:
        for layout in layouts:
            found.compile(layout).bind(places)()
        program.bind(places)()
    return True


def expect(work: Work, memories: Memories) -> None:
    """The reference's answer, verb by verb."""
    verbs = [part for one in work.primitives for part in one.spelled()]
    memories.add([view for verb in verbs for view in verb.views])
    for verb in verbs:
        find_engine("reference").compile(verb).bind(memories.places)()


def check(engine: str, work: Work) -> None:
    """That an engine gives what the reference does, and writes nothing else."""
    for at_end in (False, True):
        for most in (3, 1, 0):  # indices of 0 are in every dimension
            wanted = Memories(work, at_end=at_end, most=most)
            with contextlib.suppress(IndexFault):
                expect(work, wanted)
                break
        got = Memories(work, at_end=at_end, most=most)
        if not run(engine, work, got):
            return
        for name in work.views:
            for mine, theirs in zip(got.held[name].arrays(), wanted.held[name].arrays(), strict=True):
                if name in work.written:
                    compare(mine, theirs, is_long=isinstance(work.primitives[0], Repeat))
                    mine[...] = theirs
            for mine, theirs in zip(got.held[name].pieces(), wanted.held[name].pieces(), strict=True):
                assert np.array_equal(mine, theirs), f"{name} is written beside its elements"


def compare(mine: Array, theirs: Array, *, is_long: bool) -> None:
    """Integers to the bit, floats as near as functions in another order of operations are."""
    if mine.dtype.kind != "f":
        np.testing.assert_array_equal(mine, theirs)
        return
    tolerance = 2e-3 if is_long or mine.dtype == np.float16 else 2e-5
    largest = np.abs(theirs[np.isfinite(theirs)], dtype="f8").max(initial=0)
    np.testing.assert_allclose(mine.astype("f8"), theirs.astype("f8"), tolerance, tolerance * largest)


# What is run


def lying(sizes: Sequence[int], *, is_beside: bool) -> dml.TensorDesc:
    """Pictures of FLOAT32 in planes, or with the channels of a place side by side."""
    order = (0, 2, 3, 1) if is_beside else (0, 1, 2, 3)
    return dml.TensorDesc.of(np.empty([sizes[k] for k in order], "f").transpose(np.argsort(order)))


def convolved(
    engine: str, sizes: tuple[int, ...], filters: tuple[int, ...], *, is_beside: bool = False, **options: Any
) -> None:
    """A convolution by constant filters."""
    owned = dml.TensorDesc("float32", filters, flags=dml.TensorFlags.OWNED_BY_DML)
    desc = dml.Convolution.infer(input_tensor=lying(sizes, is_beside=is_beside), filter_tensor=owned, **options)
    output = lying(desc.output_tensor.sizes, is_beside=is_beside)
    dml.Device(engine).compile(replace(desc, output_tensor=output))


def pooled(engine: str, sizes: tuple[int, ...], *, pad: int = 0, is_beside: bool = False) -> None:
    """The largest of windows."""
    desc = dml.MaxPooling2.infer(
        input_tensor=lying(sizes, is_beside=is_beside), window_size=(2, 2), strides=(2, 1), start_padding=(pad, pad)
    )
    output = lying(desc.output_tensor.sizes, is_beside=is_beside)
    dml.Device(engine).compile(replace(desc, output_tensor=output))


def weighed(engine: str, *of: Any, **more: Any) -> None:
    """Rows by quantised weights, which are never dequantised once for all."""
    with mock.patch.object(constants, "MOST_READ_OFTEN", -1):
        Weights(*of, **more).compile(engine)


def looked_up(engine: str) -> None:
    """A function of bytes."""
    g = dml.Graph(engine)
    scale = g.constant(np.full((1, 1), 0.1, "f"))
    x = dml.dequantize_linear(g.input(np.zeros((40, 300), "u1")), scale)
    g.compile(dml.quantize_linear(dml.sigmoid(dml.tanh(x)), scale))


def multiplied(engine: str, rows: int, columns: int, length: int) -> None:
    """A product by a constant."""
    g = dml.Graph(engine)
    x, y = g.input(np.ones((rows, length), "f")), g.constant(np.ones((length, columns), "f"))
    g.compile(dml.relu(dml.gemm(x, y)))


def in_blocks(engine: str) -> None:
    """Blocks made channels."""
    x = dml.TensorDesc("float32", (1, 3, 8, 64))
    dml.Device(engine).compile(dml.SpaceToDepth.infer(input_tensor=x, block_size=2))


def ordered(engine: str) -> None:
    """An order of numbers of 64 bits."""
    x = dml.TensorDesc("int64", (3, 20))
    dml.Device(engine).compile(dml.TopK1.infer(input_tensor=x, axis=1, k=7, axis_direction="decreasing"))


def scattered(engine: str) -> None:
    """More tuples than are written one after the other."""
    x, updates = (dml.TensorDesc("float32", (rows, 24)) for rows in (64, 40))
    desc = dml.ScatterND.infer(
        input_tensor=x, indices_tensor=dml.TensorDesc("uint32", (40, 1)), updates_tensor=updates,
        input_dimension_count=2, indices_dimension_count=2,
    )  # fmt: skip
    dml.Device(engine).compile(desc)


def attended(engine: str) -> None:
    """Attention of more queries than a product of few rows has."""
    query, key, value = (dml.TensorDesc("float32", (2, n, 32)) for n in (17, 19, 19))
    desc = dml.MultiheadAttention.infer(
        query_tensor=query, key_tensor=key, value_tensor=value, scale=0.25, head_count=2, mask_type="none"
    )
    dml.Device(engine).compile(desc)


PADDED: dict[str, Any] = {"start_padding": (1, 1), "end_padding": (1, 1)}
LONGER: dict[str, Callable[[str], None]] = {
    "CONVOLUTION of planes": lambda engine: convolved(engine, (2, 3, 7, 19), (16, 3, 3, 3)),
    "CONVOLUTION of padded planes": lambda engine: convolved(
        engine, (2, 6, 6, 10), (24, 2, 3, 3), group_count=3, **PADDED
    ),
    "CONVOLUTION of pixels": lambda engine: convolved(engine, (2, 20, 6, 9), (24, 20, 1, 1), is_beside=True),
    "CONVOLUTION of padded pixels": lambda engine: convolved(
        engine, (2, 6, 6, 10), (24, 2, 3, 3), is_beside=True, group_count=3, **PADDED
    ),
    "CONVOLUTION of each channel": lambda engine: convolved(
        engine, (1, 16, 8, 9), (16, 1, 3, 5), is_beside=True, group_count=16, **PADDED
    ),
    "MAX_POOLING of planes": lambda engine: pooled(engine, (2, 3, 9, 20)),
    "MAX_POOLING of padded planes": lambda engine: pooled(engine, (2, 3, 9, 20), pad=1),
    "MAX_POOLING of pixels": lambda engine: pooled(engine, (2, 16, 14, 28), is_beside=True),
    "SPACE_TO_DEPTH of rows": in_blocks,
    "DEQUANTIZE and GEMM of one row": lambda engine: weighed(engine, "uint8", 1, 6, 96, 0, zeros=True),
    "DEQUANTIZE and GEMM in blocks": lambda engine: weighed(engine, "uint4", 1, 41, 128, 32),
    "DEQUANTIZE and GEMM of whole tiles": lambda engine: weighed(engine, "uint4", 3, 32, 128, 32),
    "DEQUANTIZE and GEMM of rows": lambda engine: weighed(engine, "int8", 41, 80, 64, 32, zeros=True, fused=True),
    "DEQUANTIZE and GEMM of long blocks": lambda engine: weighed(engine, "int8", 33, 41, 256, 128),
    "DEQUANTIZE and QUANTIZE of bytes": looked_up,
    "TOP_K of 64 bits": ordered,
    "SCATTER_ND of many rows": scattered,
    "MULTIHEAD_ATTENTION of rows": attended,
    "GEMM by a constant": lambda engine: multiplied(engine, 9, 64, 37),
}
"""What the case table's small examples do not lead to: constants that are laid out ahead, and long rows."""


class Asked(NamedTuple):
    """Work that an engine was asked for."""

    case: str
    route: str
    """The schedule that took it."""
    work: Work


def schedules_of(engine: str) -> Any:
    """The module with an engine's tables of schedules."""
    return importlib.import_module(f"anydml.engines.{engine}.schedules")


def name_of(route: Route) -> str:
    """What a route is called here: the name of its planner, or of the program that plans itself."""
    return route.plan.partition(":")[2].removesuffix(".plan")


def routes_of(engine: str) -> set[str]:
    """All schedules that an engine has."""
    module = schedules_of(engine)
    tables = (getattr(module, "JOINED", ()), *module.SCHEDULES.values())
    return {name_of(route) for route in itertools.chain(*tables)}


@contextlib.contextmanager
def recording(engine: str, found: list[tuple[str, Work]]) -> Iterator[None]:
    """Write down what an engine is asked to compile, and the schedule that takes it."""
    kind, taken, ask = type(find_engine(engine)), ["reference"], Route.ask

    def watched(route: Route, *given: Any) -> Any:
        program = ask(route, *given)
        taken.extend([] if program is None else [name_of(route)])
        return program

    def asked(method: Any) -> Any:
        def compile_it(self: Any, primitives: Any, constants: frozenset[str] = frozenset()) -> Any:
            program = method(self, primitives, constants)
            if program is not None:
                several = tuple(primitives) if isinstance(primitives, (list, tuple)) else (primitives,)
                route = "Repeat" if isinstance(several[0], Repeat) else taken[-1]
                found.append((route, Work(several, constants)))
            return program

        return compile_it

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(Route, "ask", watched))
        for name in ("compile", "join"):
            if getattr(kind, name) is not getattr(Engine, name):  # its own, or of a class between
                stack.enter_context(mock.patch.object(kind, name, asked(getattr(kind, name))))
        yield


def likeness(work: Work) -> Any:
    """What works have in common of which one will do."""
    return tuple(
        (
            type(verb),
            *((view.data_type.is_float, view.data_type.size_in_bytes) for view in verb.views),
            *(min(sum(map(bool, view.strides)), 3) for view in verb.targets),
        )
        for verb in work.primitives
    )


def compiled(case: Case, engine: str) -> None:
    """A case of the table, compiled."""
    dml.Device(engine).compile(case.desc(dml.DataType.FLOAT32))


def works(engine: str, most: int) -> list[Asked]:
    """For each schedule what it takes, by the types and ranks of views: as it is, and of longer rows.

    Of at most so many elements, but the first of a schedule, which may have more.
    """
    found: dict[Any, Asked] = {}
    cases: dict[str, Callable[[str], None]] = {case.name: functools.partial(compiled, case) for case in CASES}
    for name, compile_it in {**cases, **LONGER}.items():
        asked: list[tuple[str, Work]] = []
        with recording(engine, asked):
            compile_it(engine)
        for route, work in asked:
            for size in (0, 19 if most > 19**3 else 5):
                one = enlarged(work, size) if size else work
                if one is None or not all(math.prod(verb.sizes) for verb in one.primitives):
                    continue
                if math.prod(one.primitives[-1].sizes) <= most or all(key[0] != route for key in found):
                    found.setdefault((route, size, likeness(one)), Asked(name, route, one))
    return list(found.values())


def sweep(engine: str, part: int) -> Iterator[tuple[Asked, str, Work]]:
    """Works with one tensor in a layout, or all of them; one in so many, and one of each schedule at least."""
    number, seen = 0, set[str]()
    for asked in works(engine, 2000 if is_interpreted() else 200_000):
        for name, tensor in itertools.product(LAYOUTS, ("", *asked.work.views)):
            made = laid_out(asked.work, tensor, name) if tensor else laid_out_all(asked.work, name)
            if made is None or made == asked.work or (LAYOUTS[name].is_far and is_on_gpu(engine)):
                continue
            number += 1
            if number % part == 0 or asked.route not in seen:
                seen.add(asked.route)
                yield asked, f"{tensor or 'all'} {name}", made


def main(engine: str, part: int) -> int:
    """Say what comes next, and run it; the number of faults."""
    faulthandler.enable()
    os.environ["ANYDML_KEEP_PLANS"] = "0"  # a plan from disk asks for no schedule
    pytest_configure()
    faults, missing = 0, routes_of(engine)
    for asked, name, work in sweep(engine, part):
        missing.discard(asked.route)
        tell(f"{asked.route}: {asked.case}, {name}")
        try:
            check(engine, work)
        except AssertionError as error:
            faults += 1
            tell(f"WRONG {asked.route}: {asked.case}, {name}: {error}")
    if engine == "cpu" and not figures().conv.spreads_pixels:
        missing = {route for route in missing if "NHWC" not in route and "direct" not in route}
    if missing:  # whoever adds a schedule adds what leads to it, where the case table does not: to LONGER
        tell(f"WRONG {engine}: no case leads to {', '.join(sorted(missing))}")
    return faults + len(missing)


def tell(text: str) -> None:
    """Before it is run: a crash leaves nothing behind but what was written."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])) > 0)
