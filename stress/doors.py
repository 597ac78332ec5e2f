"""The doors: each makes an item of work from a random number generator."""

from __future__ import annotations

import inspect
import json
import random
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis.internal.conjecture import providers
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.constants_ast import Constants

import anydml as dml
from anydml.dxdispatch import load_model
from breakages import broken
from breaking import EVERY
from case_kinds import FUNCTIONS
from doors import all_through_objects, as_list, view_output
from drawing import OPERATORS
from families.table import cases
from modelling import as_dispatchable
from random_graphs import graphs
from running import Memory, run
from stress.large import Maker, UnknownFieldError, draw_shape
from stress.work import Array, Work, WrongError, folder, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hypothesis.strategies import SearchStrategy

EXACT: tuple[type[dml.OperatorDesc], ...] = (*OPERATORS, dml.ElementWiseIdentity)
"""The operators whose results have the same bits on every engine."""

WHOLE = ("int32", "uint32", "uint64")
"""Types of large graphs: a long row of floats may be added up in other parts where a graph is simplified."""
MOST_IN_A_MODEL = 2_000
"""Values of a model that are written out; more come from a file."""


drawing = threading.RLock()
"""Held while something is drawn, and while a process forks: a child must not find Hypothesis's own locks held."""

# Hypothesis also draws numbers that stand in the modules loaded so far, so that a seed would give something else later.
providers._get_local_constants = Constants  # noqa: SLF001 - it has no setting for it


def draw(strategy: SearchStrategy[Any], seed: int) -> Any:
    """The example of a test strategy for a seed, outside of a test."""
    with drawing:
        return ConjectureData(random=random.Random(seed)).draw(strategy)  # noqa: S311 - test data


# Small ones, as the tests have them: every level, type and layout, errors among them


def small(rng: random.Random) -> Work:
    """A random case of the tests by its own door: arrays, with and without out=, or a binding table."""
    case = draw(cases(rng.choice(EXACT)), rng.getrandbits(32))

    def ran(engine: str) -> list[Array]:
        memory = Memory.of(case, engine)
        before = memory.raw.copy()
        try:
            results = [result.copy() for result in run(case, memory, engine)]
        except dml.DmlError:
            is_owned = any(tensor.is_owned for tensor in case.tensors.values())  # which are wiped once they are taken
            if not is_owned and not np.array_equal(memory.raw, before):
                raise WrongError("an error left something written") from None
            raise
        for name, tensor in case.tensors.items():
            if name in case.outputs or tensor.is_owned:
                memory.wipe(name)
        return [*results, memory.raw]

    about = f"{case.cls.type.name} {case.attributes} by {case.door}"
    return Work(f"{case.door} (small)", about, lambda: ran("reference"), lambda: ran(judged()), is_lean=True)


def spoilt(rng: random.Random) -> Work:
    """A description that breaks rules: an error of the family, or none where two faults cancel each other."""
    description = draw(broken(rng.choice(EVERY)), rng.getrandbits(32))

    def create() -> list[Array]:
        try:
            description.create()
        except dml.DmlError as error:
            str(error)
        else:
            if description.must_raise:
                raise WrongError(f"no error of {description.breakages}")
        return []

    return Work("broken", f"{description.case.cls.type.name} {description.breakages}", list, create)


# Of any size


def _described(rng: random.Random, *, is_packed: bool = False) -> tuple[dml.OperatorDesc, list[Array], list[Array]]:
    """A description, its arrays at their own rank, and at the description's."""
    while True:
        try:
            desc, arrays = Maker(rng.choice(EXACT), rng, is_packed=is_packed).make()
        except UnknownFieldError:
            continue
        tensors = desc.inputs().values()
        return desc, arrays, [_padded(array, tensor) for array, tensor in zip(arrays, tensors, strict=True)]


def _padded(array: Array, tensor: dml.TensorDesc) -> Array:
    return array[(None,) * (tensor.dimension_count - array.ndim)]


def _reference(desc: dml.OperatorDesc, arrays: list[Array]) -> Callable[[], list[Array]]:
    return lambda: as_list(dml.Device("reference").compile(desc)(*arrays))


def _about(desc: dml.OperatorDesc) -> str:
    return f"{desc.type.name} {[(t.data_type.name, t.sizes) for t in desc.tensors().values()]}"


def _outs(outputs: Mapping[str, dml.TensorDesc]) -> list[Array]:
    """Arrays in the described layouts, with something in them that must be gone."""
    return [view_output(bytearray(b"\7" * output.total_tensor_size_in_bytes), 0, output) for output in outputs.values()]


def function(rng: random.Random) -> Work:
    """The function of an operator, on arrays of their own rank."""
    desc, bare, arrays = _described(rng)
    call: Any = FUNCTIONS[type(desc)]
    takes = inspect.signature(call).parameters
    outputs = list(desc.outputs().values())
    options = {name: getattr(desc, name) for name in desc.field_types() if name in takes}
    given: list[Any] = list(bare)
    if "tensors" in takes:
        given = [bare]
    if "output_axis_sizes" in takes:
        options["output_axis_sizes"] = [output.sizes[options["axis"]] for output in outputs]
    if "data_type" in takes:
        options["data_type"] = outputs[0].data_type
    if not bare:
        options["sizes"] = outputs[0].sizes
    return Work(
        "function",
        _about(desc),
        _reference(desc, arrays),
        lambda: as_list(call(*given, device=judged(), **options)),
        is_lean=True,
    )


def backwards(rng: random.Random) -> Work:
    """A function into an array whose dimensions run backwards or by steps, among bytes that must stay as they are."""
    x = np.random.default_rng(rng.getrandbits(32)).integers(-99, 99, draw_shape(rng)).astype(rng.choice(WHOLE[:2]))
    kind, rows = rng.choice(("scatter_nd", "scatter", "slice1", "cumulative_summation", "gather")), x.shape[0]
    picked = np.random.default_rng(rng.getrandbits(32)).permutation(rows)[: rng.randint(1, rows)].astype("uint32")
    axis = rng.randrange(x.ndim)
    updates = x[picked] + 1

    def call(device: str, **more: Any) -> Any:
        if kind == "scatter_nd":
            return dml.scatter_nd(x, picked[:, None], updates, device=device, **more)
        if kind == "scatter":
            whole = np.broadcast_to(picked.reshape(-1, *(1,) * (x.ndim - 1)), updates.shape)
            return dml.scatter(x, whole, updates, axis=0, device=device, **more)
        if kind == "gather":
            return dml.gather(x, picked, axis=0, device=device, **more)
        if kind == "cumulative_summation":
            return dml.cumulative_summation(x, axis=axis, device=device, **more)
        steps = [-1 if k == axis else 1 for k in range(x.ndim)]
        return dml.slice1(x, [0] * x.ndim, x.shape, steps, device=device, **more)

    shape = (len(picked), *x.shape[1:]) if kind == "gather" else x.shape
    steps = [rng.choice((-3, -2, -1, -1, 1, 2)) for _ in shape]

    def got() -> list[Array]:
        room = np.full([size * abs(step) + 2 for size, step in zip(shape, steps, strict=True)], 7, x.dtype)
        inner = room[(slice(1, -1),) * len(shape)]
        out = inner[tuple(slice(None, None, step) for step in steps)]
        at_once(lambda: call(judged(), out=out), threads=1)
        found = out.copy()
        out[...] = 7
        if not (room == 7).all():
            raise WrongError("something beside the target was written")
        return [found]

    return Work("backwards", f"{kind} {x.dtype} {shape} by {steps}", lambda: [call("reference")], got, is_lean=True)


def compiled(rng: random.Random) -> Work:
    """A compiled operator, called with arrays, then into arrays twice."""
    desc, _, arrays = _described(rng)
    has_out = rng.random() < 0.5

    def got() -> list[Array]:
        run = dml.Device(judged()).compile(desc)
        if not has_out:
            return as_list(run(*arrays))
        outs = _outs(desc.outputs())
        for _ in range(2):
            run(*arrays, out=outs if desc.gives_several() else outs[0])
        return outs

    return Work("out=" if has_out else "compiled", _about(desc), _reference(desc, arrays), got, is_lean=True)


def bound(rng: random.Random) -> Work:
    """A bound operator, which three threads dispatch at once."""
    desc, _, arrays = _described(rng)

    def got() -> list[Array]:
        outs = _outs(desc.outputs())
        binding = dml.Device(judged()).compile(desc).bind(*arrays, out=outs if desc.gives_several() else outs[0])
        at_once(binding.dispatch)
        return outs

    return Work("bound", _about(desc), _reference(desc, arrays), got)


def at_once(dispatch: Callable[[], Any], threads: int = 2, rounds: int = 2) -> None:
    """Dispatch from this thread and others; the first exception of any is raised once all have ended."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(rounds):
                dispatch()
        except BaseException as error:  # noqa: BLE001 - it is raised below
            raised.append(error)

    others = [threading.Thread(target=work) for _ in range(threads)]
    for other in others:
        other.start()
    work()
    for other in others:
        other.join()
    if raised:
        raise raised[0]


def objects(rng: random.Random) -> Work:
    """DirectML's own objects over one raw buffer."""
    desc, _, arrays = _described(rng, is_packed=True)
    return Work(
        "objects",
        _about(desc),
        _reference(desc, arrays),
        lambda: [y.copy() for y in all_through_objects(dml.Device(judged()), desc, arrays)],
        is_lean=True,
    )


def model(rng: random.Random) -> Work:
    """A DxDispatch model in a folder of its own, which writes its outputs to files."""
    desc, _, arrays = _described(rng, is_packed=True)

    def got() -> list[Array]:
        with folder() as place:
            path = place / "model.json"
            path.write_text(json.dumps(model_of(desc, arrays, place)))
            found = load_model(path).run(judged()).resources
            outputs = [found[slot] for slot in desc.outputs()]
            written = [np.load(place / f"out{i}.npy") for i in range(len(outputs))]
            if any(a.tobytes() != b.tobytes() for a, b in zip(outputs, written, strict=True)):
                raise WrongError("a file differs from its resource")
            return outputs

    return Work("model", _about(desc), _reference(desc, arrays), got)


def model_of(desc: dml.OperatorDesc, arrays: list[Array], folder: Path) -> dict[str, Any]:
    """One dispatch, each resource with the name of its tensor; many values are in files."""
    resources: dict[str, Any] = {}
    bindings: dict[str, list[str]] = {}
    for slot, array in [
        *zip(desc.inputs(), arrays, strict=True),
        *zip(desc.outputs(), _outs(desc.outputs()), strict=True),
    ]:
        values: Any = array.ravel().tolist()
        if array.size > MOST_IN_A_MODEL:
            name = f"{len(resources)}.npy"
            np.save(folder / name, array.ravel())
            values = {"sourcePath": name}
        resources[slot] = {"initialValuesDataType": desc.tensors()[slot].data_type.name, "initialValues": values}
        bindings.setdefault(slot.partition("[")[0], []).append(slot)
    commands: list[dict[str, Any]] = [{"type": "dispatch", "dispatchable": "it", "bindings": bindings}]
    for i, (slot, output) in enumerate(desc.outputs().items()):
        write = {"type": "writeFile", "resource": slot, "targetPath": f"out{i}.npy", "dimensions": list(output.sizes)}
        commands.append(write)
    return {"resources": resources, "dispatchables": {"it": as_dispatchable(desc)}, "commands": commands}


# Graphs


def graph(rng: random.Random) -> Work:
    """A graph of up to 12 nodes: called, bound and dispatched by several threads, or unsimplified."""
    seed, way, optimise = rng.getrandbits(32), rng.choice(("call", "bind", "bind")), rng.random() < 0.7
    size: dict[str, Any] = rng.choice(({}, {}, {"types": WHOLE, "most": 500, "ranks": (2, 2)}))

    def wanted() -> list[Array]:
        built, chosen = draw(graphs("reference", **size), seed)
        return [built.values[i][1] for i in chosen]

    def got() -> list[Array]:
        built, chosen = draw(graphs(judged(), **size), seed)
        program = built.graph.compile([built.values[i][0] for i in chosen], optimise=optimise)
        if way == "call":
            return as_list(program(*built.arrays))
        outs = _outs(program.outputs)
        at_once(program.bind(*built.arrays, out=outs if len(outs) > 1 else outs[0]).dispatch)
        return outs

    return Work("graph", f"seed {seed}, {way}, {size}", wanted, got)
