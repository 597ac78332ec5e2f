"""ONNX models as work: ONNX's own for every node type that there is, and chains of nodes over large tensors.

Inputs are arrays, lists, entries of a file, objects that show an array only when asked, and such as another thread puts
in the place of the first while the model runs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import sys
import threading
import time
import warnings
from collections import ChainMap
from typing import TYPE_CHECKING, Any

import numpy as np

from stress.large import draw_shape
from stress.work import Array, Work, judged

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

IS_THERE = importlib.util.find_spec("onnx") is not None
REPLACING = 3.0
"""Seconds for which entries are replaced."""
_TYPES = ("float32", "float16", "int32", "int64", "float64")


class Shown:
    """An object that makes an array each time it is asked for one."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype)


@functools.cache
def known_models() -> list[tuple[Any, dict[str, Array]]]:
    """ONNX's own tests of the node types that there are, as models with inputs; those that are refused are left out."""
    import onnx.backend.test.case.node as collected

    import anydml as dml
    import anydml.onnx
    from anydml.onnx.library import load_onnxruntime
    from anydml.onnx.lower.registry import LOWERINGS

    with contextlib.suppress(ImportError):  # it starts a thread of its own when a node on the host first needs it
        load_onnxruntime()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in sorted(LOWERINGS)[::8]:  # enough of them: all take half a minute a process
            with contextlib.suppress(ImportError):  # `Range` is in a file of another name
                importlib.import_module(f"onnx.backend.test.case.node.{kind.lower()}")
    found = []
    for case in collected._NodeTestCases:  # noqa: SLF001 - collecting all takes 15 s, these 0.2
        with contextlib.suppress(dml.DmlError, TypeError, ValueError):
            arrays = [np.asarray(_plain(x)) for x in case.data_sets[0][0]]
            names = [info.name for info in case.model.graph.input]
            anydml.onnx.load(case.model, device="reference")
            found.append((case.model, dict(zip(names, arrays, strict=True))))
    return found


def _plain(given: Any) -> Any:
    import onnx

    return onnx.numpy_helper.to_array(given) if isinstance(given, onnx.TensorProto) else given


def onnx_model(rng: random.Random) -> Work:
    """A model of ONNX's own, or a chain."""
    proto, arrays, about = pick_model(rng)
    form, times = rng.choice(tuple(FORMS)), rng.randint(1, 3)

    def ran(device: str, feed: Callable[[dict[str, Array]], Any]) -> list[Array]:
        import anydml.onnx

        loaded = anydml.onnx.load(proto.SerializeToString() if times == 1 else proto, device=device)
        with feed(arrays) as given:
            for _ in range(times):
                results = loaded.run(given)
        return [np.array(result) for result in results.values()]

    return Work(
        "onnx",
        f"{about}, inputs as {form}",
        lambda: ran("reference", as_they_are),
        lambda: ran(judged(), FORMS[form]),
        is_exact=False,
    )


def session(rng: random.Random) -> Work:
    """The same behind ONNX Runtime's interface: threads of its own, and arrays that are bound or fed."""
    proto, arrays, about = pick_model(rng)
    threads, is_bound, times = rng.choice((0, 0, 1, 3)), rng.random() < 0.5, rng.randint(1, 3)

    def plain() -> list[Array]:
        import anydml.onnx

        return [np.array(x) for x in anydml.onnx.load(proto, device="reference").run(arrays).values()]

    def ran() -> list[Array]:
        import anydml.onnx
        import anydml.onnxruntime

        options = anydml.onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        providers = ["WebGpuExecutionProvider"] * (judged() == "webgpu") + ["CPUExecutionProvider"]
        opened = anydml.onnxruntime.InferenceSession(proto.SerializeToString(), options, providers)
        binding = opened.io_binding()
        if is_bound:
            for name, array in arrays.items():
                binding.bind_ortvalue_input(name, anydml.onnxruntime.OrtValue.ortvalue_from_numpy(array))
            for arg in opened.get_outputs():
                binding.bind_output(arg.name)
        for _ in range(times):
            if is_bound:
                opened.run_with_iobinding(binding)
            results = binding.copy_outputs_to_cpu() if is_bound else opened.run(None, arrays)
        return [np.array(x) for x in results]

    how = f"{'bound' if is_bound else 'fed'}, {threads} threads"
    return Work("session", f"{about}, {how}", plain, ran, is_exact=False)


def pick_model(rng: random.Random) -> tuple[Any, dict[str, Array], str]:
    """A model, its inputs, and what it is."""
    # Whichever it is, the modules of both are there from the first on: a fork does not go well with an import.
    importlib.import_module("onnx_models")
    flow = importlib.import_module("onnx_flow")
    known, chosen = known_models(), rng.random()
    if chosen < 0.15:
        name = rng.choice(list(flow.MODELS))
        return flow.flow_model(name), rng.choice(flow.MODELS[name][1]), f"control flow: {name}"
    if chosen < 0.45:
        proto, arrays = rng.choice(known)
        return proto, arrays, proto.graph.name
    return constants(rng) if chosen < 0.55 else fan(rng) if chosen < 0.58 else chain(rng)


# How inputs are given


@contextlib.contextmanager
def as_they_are(arrays: dict[str, Array]) -> Any:
    """Plain arrays."""
    yield arrays


@contextlib.contextmanager
def as_lists(arrays: dict[str, Array]) -> Any:
    """Lists and numbers, where they are of the type that NumPy takes them for."""
    yield {name: x.tolist() if x.size and np.asarray(x.tolist()).dtype == x.dtype else x for name, x in arrays.items()}


@contextlib.contextmanager
def as_objects(arrays: dict[str, Array]) -> Any:
    """Objects that make an array when they are asked for one; an input of no dimensions stays what it is."""
    yield {name: Shown(x) if x.ndim else x for name, x in arrays.items()}


@contextlib.contextmanager
def as_file(arrays: dict[str, Array]) -> Any:
    """A file's entries, each look at one a new array; NumPy's files do not know the types that are not its own."""
    held = io.BytesIO()
    named: dict[str, Any] = {name: x for name, x in arrays.items() if x.dtype.isbuiltin != 2}
    np.savez(held, **named)
    held.seek(0)
    with np.load(held) as entries:
        yield ChainMap(entries, arrays)


@contextlib.contextmanager
def as_replaced(arrays: dict[str, Array]) -> Any:
    """A mapping whose entries another thread replaces by equal ones all the while."""
    given, stop = {name: x.copy() for name, x in arrays.items()}, threading.Event()
    deadline = time.monotonic() + REPLACING  # an interrupt may come before anybody waits for the thread

    def replace() -> None:
        while not stop.wait(0.0005) and time.monotonic() < deadline:
            for name, x in arrays.items():
                given[name] = x.copy()

    thread = threading.Thread(target=replace, daemon=True)
    try:
        thread.start()
        yield given
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join()


FORMS: Mapping[str, Callable[[dict[str, Array]], Any]] = {
    "arrays": as_they_are,
    "lists": as_lists,
    "objects": as_objects,
    "a file": as_file,
    "replaced ones": as_replaced,
}


# Chains


def chain(rng: random.Random) -> tuple[Any, dict[str, Array], str]:
    """One to five nodes over one or two inputs of any size."""
    from onnx_models import model, node

    numbers = np.random.default_rng(rng.getrandbits(32))
    shape, dtype = list(draw_shape(rng)), rng.choice(_TYPES)
    arrays = {name: numbers.integers(-9, 10, shape).astype(dtype) for name in "ab"[: rng.randint(1, 2)]}
    declared = {name: (dtype, rng.choice(([*shape], ["n", *shape[1:]], [-1, *shape[1:]]))) for name in arrays}
    nodes, constants, last, words = [], {}, "a", []
    for i in range(rng.randint(1, 5)):
        kind = (
            "Concat"
            if len(arrays) == 2 and not i
            else rng.choice(("Slice", "Slice", "CumSum", "Transpose", "Gather", "Identity", "ScatterND"))
        )
        axis, at, name = rng.randrange(len(shape)), f"at{i}", f"t{i}"
        words.append(kind)
        if kind == "Concat":
            nodes.append(node(kind, "a b", name, axis=axis))
            shape[axis] *= 2
        elif kind == "Slice":
            step = rng.choice((1, 2, -1))
            bounds = (0, shape[axis], step) if step > 0 else (shape[axis] - 1, -shape[axis] - 1, step)
            for part, value in zip(("s", "e", "p", "x"), (*bounds, axis), strict=True):
                constants[at + part] = np.array([value])
            nodes.append(node(kind, f"{last} {at}s {at}e {at}x {at}p", name))
            shape[axis] = -(-shape[axis] // abs(step))
        elif kind == "CumSum":
            constants[at] = np.array(axis)
            nodes.append(node(kind, f"{last} {at}", name, reverse=rng.randint(0, 1), exclusive=rng.randint(0, 1)))
        elif kind == "Gather":
            constants[at] = numbers.integers(-shape[axis], shape[axis], rng.randint(1, shape[axis]))
            nodes.append(node(kind, f"{last} {at}", name, axis=axis))
            shape[axis] = constants[at].size
        elif kind == "ScatterND":  # whole rows: a Slice behind it is its target's own stride
            constants[at] = numbers.permutation(shape[0])[: rng.randint(1, shape[0]), None]
            constants[f"{at}u"] = numbers.integers(-9, 10, (len(constants[at]), *shape[1:])).astype(dtype)
            nodes.append(node(kind, f"{last} {at} {at}u", name))
        elif kind == "Transpose":
            nodes.append(node(kind, last, name, perm=list(range(len(shape)))[::-1]))
            shape.reverse()
        else:
            nodes.append(node(kind, last, name))
        last = name
    made = model(nodes, declared, last, constants, dtypes={last: dtype})
    return made, arrays, f"{dtype} {', '.join(words)}"


# Models of many nodes, and of none that reads an input

_ALONE = ("Identity", "Neg", "Abs", "Sqrt", "ReduceSum", "ReduceL2", "Transpose", "Flatten")


def constants(rng: random.Random) -> tuple[Any, dict[str, Array], str]:
    """Nodes on constants, of types that the host has too, alone or as the branches of an If."""
    from onnx import helper, numpy_helper

    from onnx_models import model, node

    numbers = np.random.default_rng(rng.getrandbits(32))
    dtype = rng.choice((*_TYPES, "bool", "object"))
    kind = rng.choice([one for one in _ALONE if one != "Sqrt" or dtype.startswith("float")])
    value = numbers.integers(0, 2 if dtype == "bool" else 9, [rng.randint(1, 4) for _ in range(2)])
    held = value.astype(str).astype(object) if dtype == "object" else value.astype(dtype)
    if dtype in ("bool", "object"):
        kind = rng.choice(("Identity", "Transpose", "Flatten"))
    about = f"{kind} of constant {dtype}"
    if rng.random() < 0.5:
        return model(node(kind, "c", "y"), {}, "y", {"c": held}), {}, about
    branches = {}
    for branch in ("then_branch", "else_branch"):
        given = helper.make_node("Constant", [], [f"{branch}c"], value=numpy_helper.from_array(held, "c"))
        result = helper.make_empty_tensor_value_info(f"{branch}y")
        branches[branch] = helper.make_graph([given, node(kind, f"{branch}c", f"{branch}y")], branch, [], [result])
    choice = np.array(rng.random() < 0.5)
    choose = helper.make_node("If", ["which"], ["y"], **branches)
    if rng.random() < 0.5:
        return model(choose, {}, "y", {"which": choice}), {}, f"If over {about}"
    return model(choose, {"which": ("bool", [])}, "y"), {"which": choice}, f"If over {about}"


def fan(rng: random.Random) -> tuple[Any, dict[str, Array], str]:
    """Up to a thousand nodes that read one input, and one that joins them."""
    from onnx_models import model, node

    count, kinds = rng.choice((30, 300, 1000)), ("Relu", "Neg", "Abs", "Sigmoid", "Identity")
    numbers = np.random.default_rng(rng.getrandbits(32))
    x = numbers.integers(-9, 10, (rng.randint(1, 4), rng.randint(1, 40))).astype("float32")
    nodes = [node(rng.choice(kinds), "x", f"t{k}") for k in range(count)]
    nodes.append(node(rng.choice(("Sum", "Max")), " ".join(f"t{k}" for k in range(count)), "y"))
    return model(nodes, {"x": ("float32", list(x.shape))}, "y"), {"x": x}, f"a fan of {count}"


def note() -> str:
    """The parts that are left out, and why."""
    return "" if IS_THERE else f"ONNX models are left out: onnx is not installed for {sys.executable}"
