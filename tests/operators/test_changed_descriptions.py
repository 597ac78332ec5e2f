"""Valid descriptions, changed at random: whatever comes of it runs, or is refused by a rule."""

from __future__ import annotations

import dataclasses
import enum
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import anydml as dml
from families.table import cases

MOST = 2**14
"""Elements of a tensor, and of the product of all of an operator's: what is larger takes long."""
OPERATORS = [cls for cls in dml.OPERATORS.values() if cls not in (dml.Quantize, dml.Dequantize)]
"""Those of blocks have several tensors in one field, and a drawing of their own."""
TYPES = [kind for kind in dml.DataType if not kind.is_half_byte]


def _packed(own: dml.TensorDesc) -> dml.TensorDesc:
    return own if own.data_type.is_half_byte else dml.TensorDesc(own.data_type, own.sizes)


def _drawn(cls: type[dml.OperatorDesc], count: int) -> list[dml.OperatorDesc]:
    """Descriptions that are right, the same ones in each run."""
    found: list[dml.OperatorDesc] = []

    @seed(7)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(cls))
    def collect(case: Any) -> None:
        found.append(case.description().with_tensors(lambda _, own: _packed(own)))

    collect()
    return found[-count:]


def _changed(draw: random.Random, desc: dml.OperatorDesc) -> dict[str, Any]:
    """The fields of a description, some of them others: a tensor left out, other ranks, sizes, types or numbers."""
    cls = type(desc)
    fields: dict[str, Any] = {name: getattr(desc, name) for name in cls.field_types()}
    optional = [field.name for field in dataclasses.fields(cls) if field.default is None]
    for _ in range(draw.choice((1, 1, 2))):
        tensors = {name: own for name, own in fields.items() if isinstance(own, dml.TensorDesc)}
        others = [name for name in fields if name not in tensors and name not in optional]
        way = draw.choice(("leave out", "rank", "size", "type", "number", "number"))
        if way == "leave out" and optional:
            fields[draw.choice(optional)] = None
        elif way == "number" and others:
            name = draw.choice(others)
            fields[name] = _number(draw, fields[name])
        elif tensors:
            first = draw.choice(list(tensors.values()))
            rank, size, kind = draw.randrange(1, 9), draw.choice((1, 2, 3, 5)), draw.choice(TYPES)
            for name, own in tensors.items():
                sizes = own.sizes
                if way == "rank":
                    lead = len(sizes) - rank
                    sizes = (math.prod(sizes[: lead + 1]), *sizes[lead + 1 :]) if lead > 0 else (1,) * -lead + sizes
                elif way == "size":
                    sizes = tuple(size if n == first.sizes[-1] else n for n in sizes)
                is_other = way == "type" and own.data_type is first.data_type
                if not own.data_type.is_half_byte:
                    fields[name] = dml.TensorDesc(kind if is_other else own.data_type, sizes)
    return fields


def _number(draw: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple) and value and all(type(n) is int for n in value):
        place = draw.randrange(len(value))
        return (*value[:place], draw.choice((0, 1, 2, 7, value[place] + 1)), *value[place + 1 :])
    if isinstance(value, enum.Enum):
        return draw.choice(list(type(value)))
    if isinstance(value, int):
        return draw.choice((0, 1, 2, 7, -1, value + 1))
    return draw.choice((0.0, -1.0, float("nan"), float("inf"))) if isinstance(value, float) else value


def _run(device: dml.Device, desc: dml.OperatorDesc) -> bool:
    """Whether it is found right; it then runs on zeros, alone and in a graph."""
    try:
        device.create_operator(desc)
    except dml.DmlError:
        return False
    tensors = desc.tensors().values()
    if any(tensor.data_type.is_half_byte for tensor in tensors) or math.prod(t.extent for t in tensors) > MOST**3:
        return True
    if max(tensor.extent for tensor in tensors) > MOST:
        return True
    node = dml.OperatorNode(desc)
    graph = dml.GraphDesc(
        len(node.inputs), len(node.outputs), [node], [dml.InputEdge(i, 0, slot) for i, slot in enumerate(node.inputs)],
        [dml.OutputEdge(0, slot, i) for i, slot in enumerate(node.outputs)], [],
    )  # fmt: skip
    for compiled in (device.compile(desc), device.compile_graph(graph).initialize()):
        arrays = [np.zeros(tensor.sizes, tensor.data_type.dtype) for tensor in compiled.inputs.values()]
        compiled(*arrays)
    return True


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_whatever_is_changed_in_a_description_runs_or_is_refused(part: int) -> None:
    """Never an error from inside: those that are refused are so before anything is compiled."""
    draw, device = random.Random(part), dml.Device("reference")  # noqa: S311 - the same ones in each run
    valid = 0
    for cls in OPERATORS[part::4]:
        (desc,) = _drawn(cls, 1)
        for _ in range(6):
            try:
                changed = cls(**_changed(draw, desc))
            except dml.DmlError:
                continue
            valid += _run(device, changed)
    assert valid > 50
