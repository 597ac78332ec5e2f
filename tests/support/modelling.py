"""Models for tests: small ones, written out and run through the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import anydml as dml
from anydml.cli.app import app
from anydml.dxdispatch import check_file
from cases import CASES
from families.elementwise import ELEMENT_WISE, data_types, describe
from families.folding import FOLDING
from families.folding import describe as describe_folding
from families.moving import MOVING
from families.products import PRODUCTS, small_example

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
ZEROS = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 4, "value": 0}}
SUM = {
    "type": "DML_OPERATOR_CUMULATIVE_SUMMATION",
    "desc": {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4]},
        "Axis": 3,
        "AxisDirection": "INCREASING",
        "HasExclusiveSum": False,
    },
}
DESC = "dispatchables.sum.desc."
BINDINGS = {"InputTensor": "in", "OutputTensor": "out"}
DISPATCH = {"type": "dispatch", "dispatchable": "sum", "bindings": BINDINGS}


def floats(*values: Any) -> dict[str, Any]:
    return {"initialValuesDataType": "FLOAT32", "initialValues": list(values)}


def model(**sections: Any) -> dict[str, Any]:
    """Running sums of 1, 2, 3, 4, with what is given in its place."""
    return {
        "resources": {"in": floats(1, 2, 3, 4), "out": ZEROS},
        "dispatchables": {"sum": SUM},
        "commands": [DISPATCH, {"type": "print", "resource": "out"}],
        **sections,
    }


def changed(base: Any, path: str, value: Any) -> Any:
    """A copy of JSON data with the value at a path such as `dispatchables.sum.desc.Axis` replaced."""
    result = json.loads(json.dumps(base))
    *parents, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    at = result
    for part in parents:
        at = at[part]
    if value is REMOVED:
        del at[last]
    else:
        at[last] = value
    return result


REMOVED = object()


def write(folder: Path, data: Any, name: str = "model.json") -> Path:
    """Write a model: data as JSON, text or bytes as they are."""
    path = folder / name
    if isinstance(data, bytes):
        path.write_bytes(data)
    else:
        path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1))
    return path


def dml_name(name: str) -> str:
    return "".join(part.upper() if part == "roi" else part.capitalize() for part in name.split("_"))


def as_json(value: Any) -> Any:
    """What a field of a description holds, as a model has it."""
    if isinstance(value, dml.TensorDesc):
        return {"DataType": value.data_type.name, "Sizes": list(value.sizes), "Flags": value.flags.name}
    if isinstance(value, dml.ScaleBias):
        return {"Scale": value.scale, "Bias": value.bias}
    if isinstance(value, dml.FusedActivation):
        return {"Type": value.type.name, **{dml_name(name): one for name, one in value.attributes.items()}}
    if isinstance(value, tuple):
        return [as_json(one) for one in value]
    if isinstance(value, dml.IndexMode):
        return value.value
    return getattr(value, "dml_name", value)


def as_dispatchable(desc: dml.OperatorDesc, **more: Any) -> dict[str, Any]:
    """A description by its own annotations; what is none is left out."""
    fields = {dml_name(name): as_json(getattr(desc, name)) for name in desc.field_types()}
    for name, kind in desc.field_types().items():
        if kind.type == "SIZE_2D":
            fields[dml_name(name)] = dict(zip(("Width", "Height"), getattr(desc, name), strict=True))
    given = {name: value for name, value in fields.items() if value is not None}
    return {"type": desc.type.dml_name, "desc": given, **more}


def findings(folder: Path, data: Any, level: str = "6_4") -> list[tuple[str, str, str]]:
    """(kind, path, message) of each finding."""
    report = check_file(write(folder, data), level)
    found = []
    for finding in report.findings:
        place = finding.fault.place
        assert place is not None
        found.append((finding.kind.name, place.path, str(finding).removeprefix(f"{place}: ")))
    return found


def program(*arguments: object) -> Result:
    """Run the program in this process; an exception that is no clean exit fails the test."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def run(path: Path, *options: object) -> Result:
    """`anydml run` on the reference engine, which needs no compilation."""
    return program("run", path, "--engine", "reference", *options)


def lines(result: Result, path: Path) -> list[str]:
    """What was said, with the model's name in place of its path."""
    return (result.stdout + result.stderr).replace(str(path), path.name).splitlines()


# Every operator, small enough to be read

T = dml.TensorDesc
_F, _H, _U = T("float32", (1, 1, 2, 3)), T("float16", (1, 1, 2, 3)), T("uint32", (1, 1, 1, 2))
_ROWS = T("float32", (1, 1, 2, 1))
EVERY: list[dml.OperatorDesc] = [
    dml.Slice.infer(input_tensor=_F, offsets=(0, 0, 0, 1), sizes=(1, 1, 2, 2), strides=(1, 1, 1, 1)),
    dml.Slice1.infer(
        input_tensor=_F,
        input_window_offsets=(0, 0, 0, 0),
        input_window_sizes=(1, 1, 2, 3),
        input_window_strides=(1, 1, -1, 2),
    ),
    dml.GatherND.infer(input_tensor=_F, indices_tensor=_U, input_dimension_count=2, indices_dimension_count=1),
    dml.GatherND1.infer(
        input_tensor=_F, indices_tensor=_U, input_dimension_count=2, indices_dimension_count=1, batch_dimension_count=0
    ),
    dml.CumulativeSummation.infer(input_tensor=_F, axis=3),
    dml.CumulativeProduct.infer(input_tensor=_F, axis=2, axis_direction="DECREASING"),
    dml.Gather.infer(input_tensor=_F, indices_tensor=_U, axis=2, index_dimensions=1),
    dml.GatherElements.infer(input_tensor=_F, indices_tensor=T("uint32", (1, 1, 1, 3)), axis=2),
    dml.ElementWiseIdentity.infer(input_tensor=_F, scale_bias=(2, 1)),
    dml.ElementWiseIdentity.infer(input_tensor=_F),
    dml.Cast(input_tensor=_F, output_tensor=_H),
    dml.Join.infer(input_tensors=[_F, _ROWS, _F], axis=3),
    dml.Split(input_tensor=_F, output_tensors=[_ROWS, T("float32", (1, 1, 2, 2))], axis=3),
    dml.FillValueConstant(output_tensor=_H, value_data_type="float16", value=1.5),
    dml.FillValueSequence(output_tensor=_F, value_data_type="float32", value_start=1, value_delta=0.25),
    dml.ReverseSubsequences.infer(input_tensor=_F, sequence_lengths_tensor=T("uint32", (1, 1, 2, 1)), axis=3),
    *(
        describe(cls, data_types(cls)[0], (1, 1, 2, 3))
        for cls in ELEMENT_WISE
        if cls not in (dml.Cast, dml.ElementWiseIdentity)
    ),
    *(
        describe_folding(cls, dml.DataType.FLOAT32, (1, 1, 2, 3), (3,), left_out=("scale_tensor",) * ("MEAN" in name))
        for cls in FOLDING
        for name in (cls.type.name,)
    ),
    *(small_example(cls)[0] for cls in PRODUCTS),
    *(next(case for case in CASES if case.operator is cls).desc(dml.DataType.FLOAT32) for cls in MOVING),
]


def model_of(desc: dml.OperatorDesc, name: str = "it") -> dict[str, Any]:
    """A model that runs an operator once; each resource has the name of its tensor."""
    resources: dict[str, Any] = {}
    bindings: dict[str, list[str]] = {}
    for number, (slot, one) in enumerate(desc.tensors().items()):
        is_index = one.data_type is dml.DataType.UINT32
        values = [i % 2 if is_index else 10 * number + i for i in range(one.element_count)]
        if slot in ("BatchIndicesTensor", "ROITensor"):  # the first image, and regions of it
            values = [0 if is_index else i % one.sizes[-1] for i in range(one.element_count)]
        resources[slot] = {"initialValuesDataType": one.data_type.name, "initialValues": values}
        bindings.setdefault(slot.partition("[")[0], []).append(slot)
    command = {"type": "dispatch", "dispatchable": name, "bindings": bindings}
    return {"resources": resources, "dispatchables": {name: as_dispatchable(desc)}, "commands": [command]}
