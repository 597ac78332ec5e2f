"""Runs into arrays of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import BindingError, Fault, printable, show
from anydml.core.memory import HOST
from anydml.onnx.arguments import check_apart, hand_over, take_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anydml.onnx.program import Program


def check_outputs(out: Mapping[str, Any], names: Iterable[str], subject: str) -> None:
    """Check that there are outputs of the names that arrays are given for."""
    known = list(names)
    for name in out:
        if name not in known:
            rule, way_out = f"there is no output {show(name)}", f"the model has {', '.join(map(printable, known))}"
            raise BindingError(subject, Fault(field="out", rule=rule, value=name, way_out=way_out))


def run_into(
    program: Program, arrays: dict[str, Any], out: Mapping[str, Any], like: Any, memory: str, subject: str
) -> dict[str, Any]:
    """Run a program into arrays of the caller's; what a GPU cannot write is copied afterwards."""
    check_outputs(out, program.names, subject)
    taken = {n: take_out(out[n], n, value, memory) for n, value in program.results() if n in out}
    check_apart(taken, list(arrays.values()))
    there = {name: x for name, x in taken.items() if memory == HOST or not isinstance(x, np.ndarray)}
    results = program.run_into(arrays, [there.get(name) for name in program.names])
    found = dict(zip(program.names, results, strict=True))
    for name in taken.keys() - there.keys():
        taken[name][...] = found[name].cpu().numpy()
    others = {name: value.element for name, value in program.results() if name not in out}
    handed = hand_over([found[name] for name in others], list(others.values()), memory, like)
    return {**found, **dict(zip(others, handed, strict=True)), **out}
