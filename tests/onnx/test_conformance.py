"""ONNX's own backend tests, driven by ONNX's own runner: every operator here passes all of its own, and nothing fails.

The runner takes a refusal for a pass, so that passes and refusals are counted here.
"""

from __future__ import annotations

import re
import unittest
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cases import ENGINES
from onnx_models import node, onnx

from anydml.onnx import Backend  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.contrib_schemas import CONTRIB  # isort: skip
from anydml.onnx.functions import is_made_of_others  # isort: skip
from anydml.onnx.ir import nodes_within  # isort: skip
from anydml.onnx.protobuf import Reader  # isort: skip
from anydml.onnx.lower.registry import find_lowering, lowered_kinds  # isort: skip
from anydml.onnx.partition.part import makers  # isort: skip
from anydml.onnx.element_types import ELEMENT_TYPES  # isort: skip

from onnx.reference import ReferenceEvaluator  # isort: skip - onnx may be missing

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
TENSOR = "tensor_type"
PARTS = {"cpu": 1, "cuda": 16, "webgpu": 16}


@dataclass
class Outcomes:
    """What became of the tests, by name."""

    models: dict[str, Any] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """And why."""
    failed: dict[str, str] = field(default_factory=dict)


class _Watched(Backend):
    """The backend, with an eye on what it is asked and what it refuses."""

    model: Any = None
    refusal: str = ""
    strict = True
    engine = ""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **options: Any) -> Any:
        cls.model, device = model, cls.engine or device
        try:
            prepared: Any = super().prepare(model, device, strict=cls.strict, **options)
        except unittest.SkipTest as refusal:
            cls.refusal = str(refusal)
            raise
        run = prepared.run

        def watched(*inputs: Any, **named: Any) -> Any:
            try:
                return run(*inputs, **named)
            except unittest.SkipTest as refusal:
                cls.refusal = str(refusal)
                raise

        prepared.run = watched
        return prepared


def load_runner() -> Any:
    """ONNX's runner with all of its tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests are made of divisions by zero, among others
        from onnx.backend.test import BackendTest

        return BackendTest(_Watched, __name__)


def names_of(case: Any, engine: str) -> list[str]:
    """The names of a category's tests on an engine."""
    ending = ending_of(engine)
    return [name for name in sorted(dir(case)) if name.startswith("test_") and name.endswith(ending)]


def ending_of(engine: str) -> str:
    """How the names of an engine's tests end: ONNX's runner knows CPU and CUDA alone."""
    return f"_{engine if engine in ('cpu', 'cuda') else 'cpu'}"


def run_tests(case: Any, engine: str, names: Iterable[str], *, strict: bool = True) -> Outcomes:
    """Run tests of a category on an engine."""
    found = Outcomes()
    _Watched.strict, _Watched.engine = strict, engine
    for name in sorted(names):
        _Watched.model, _Watched.refusal = None, ""
        try:
            getattr(case(name), name)()
        except unittest.SkipTest as skipped:
            _Watched.refusal = str(skipped) or "skipped"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no refusal
            found.failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
            continue
        finally:
            found.models[name] = _Watched.model
        if _Watched.refusal:
            found.refused[name] = _Watched.refusal
        else:
            found.passed.append(name)
    return found


def nodes_of(model: Any) -> list[Any]:
    """A model's nodes, those of bodies included."""
    return list(nodes_within(Reader().nodes(model.graph.node)))


def kinds_of(model: Any) -> set[str]:
    """The types of a model's nodes, those of bodies included."""
    return {n.op_type for n in nodes_of(model)}


DOUBLE: int = onnx.TensorProto.DOUBLE
NO_DOUBLE = "must be of .*; got FLOAT64"
UNTESTED = {
    "Bernoulli", "GlobalLpPool", "MaxRoiPool", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
}  # fmt: skip
"""Node types that ONNX has no test of, or none but `DRAWN` ones."""
ROUNDED = {"test_attention_4d_causal_fp16", "test_attention_4d_causal_fp16_expanded"}
"""What ONNX expects in FLOAT16, rounded at every step of every sum, and with a tolerance of less than one unit."""
DRAWN = {
    *(f"test_bernoulli{name}" for name in ("", "_double", "_double_expanded", "_seed", "_seed_expanded")),
    *(f"test_training_dropout{name}" for name in ("", "_default", "_default_mask", "_mask")),
}
"""Tests that expect what NumPy's generator draws; test_random.py has what holds of DirectML's."""


UNSIZED = {"test_loop16_seq_none"}
"""Tests that expect a scalar in a sequence, of which ONNX's runner asks the length."""


def check_nearer(model: Any) -> None:
    """Ours has more digits of a causal attention than ONNX's own evaluator, neither of them all that float64 has."""
    rng = np.random.default_rng(16)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    inputs = {name: rng.random(shape).astype(np.float16) for name, shape in shapes.items()}
    q, k, v = (x.astype(np.float64) for x in inputs.values())
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    powers = np.exp(np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf))
    exact = powers / powers.sum(-1, keepdims=True) @ v
    (theirs,) = ReferenceEvaluator(model).run(None, inputs)
    (ours,) = Backend.run_model(model, list(inputs.values()))
    assert np.abs(ours - exact).mean() < np.abs(theirs - exact).mean()


def is_made_here(model: Any) -> bool:
    """Whether every node is of a type that has a lowering, or that ONNX makes of others that have."""
    version = max((entry.version for entry in model.opset_import if not entry.domain), default=0)
    kinds = kinds_of(model) - makers().keys()
    return all(find_lowering(kind, version) or is_made_of_others(kind, version) for kind in kinds)


def types_in(model: Any) -> set[int]:
    """ONNX's numbers of the types that a model is given, and of those that it casts to, in a softmax too."""
    casts = {n.value(name) for n in nodes_of(model) for name in ("to", "softmax_precision")} - {None}
    return {element_of(i.type) for i in model.graph.input} | casts


def element_of(kind: Any) -> int:
    """ONNX's number of the type of a tensor, or of what is in a sequence or an optional; none has that of a map."""
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, which).elem_type
    return int(kind.tensor_type.elem_type) if which == TENSOR else -1


def may_be_refused(model: Any) -> bool:
    """Whether DirectML lacks a type that a model has."""
    infos = [*model.graph.input, *model.graph.output]
    types = {i.name: element_of(i.type) for i in infos}
    types |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return not {*types.values(), *types_in(model)} <= ELEMENT_TYPES.keys()


REASONS = r"(\d+) have a\s+type that DirectML lacks, (\d+) a\s+node type that is not built, (\d+) compute\s+in\s+DOUBLE"


def reason_for(model: Any) -> int:
    """Which of the reasons in the guide a model is refused for: the first that holds."""
    return 0 if may_be_refused(model) else 1 if not is_made_here(model) else 2


def judged(engine: str, part: int = 0, parts: int = 1) -> Outcomes:
    """What became of ONNX's tests, or of a part of them, each as it has to be."""
    cases = load_runner().test_cases
    nodes = cases["OnnxBackendNodeModelTest"]
    found = run_tests(nodes, engine, names_of(nodes, engine)[part::parts])
    rounded, drawn, unsized = (
        {f"{name}{ending_of(engine)}" for name in names} & found.models.keys() for names in (ROUNDED, DRAWN, UNSIZED)
    )
    found.passed = [name for name in found.passed if name not in drawn]  # as one may by chance
    assert found.failed.keys() <= rounded | drawn | unsized, found.failed
    assert all("Unable to compare expected type" in found.failed[name] for name in unsized)
    assert all("Not equal to tolerance" in found.failed.get(name, "Not equal to tolerance") for name in drawn)
    for name in rounded:
        check_nearer(found.models[name])

    # Of the operators that are here, everything passes but what DirectML has no types for; of others, nothing.
    ours = {name for name, model in found.models.items() if is_made_here(model)}
    lacking = {  # DirectML's operators do not compute in FLOAT64
        name: NO_DOUBLE for name in ours & found.refused.keys() if DOUBLE in types_in(found.models[name])
    }
    wanted = {name for name in ours if not may_be_refused(found.models[name])} - lacking.keys()
    wanted -= rounded | drawn | unsized
    unlike = (set(found.passed) - rounded) ^ wanted
    assert not unlike, {name: found.refused.get(name, "passed") for name in sorted(unlike)}
    for name, reason in lacking.items():
        assert re.search(reason, found.refused[name]), found.refused[name]

    # What strict=True refuses runs on the host, but for images, and NumPy's own draws.
    there = {name for name in found.refused if not name.startswith("test_bernoulli")}
    hosted = run_tests(nodes, engine, there, strict=False)
    assert not hosted.failed, hosted.failed
    assert all("lacks a package" in reason for reason in hosted.refused.values()), hosted.refused

    for category in ("Simple", "PyTorchOperator", "PyTorchConverted"):
        case = cases[f"OnnxBackend{category}ModelTest"]
        others = run_tests(case, engine, names_of(case, engine)[part::parts])
        assert not others.failed, category
        assert others.passed or parts > 1, category
    return found


# A GPU's kernels take a second each to compile: processes share the tests.
@pytest.mark.parametrize(
    ("engine", "part", "parts"),
    [(engine, part, parts) for engine, parts in PARTS.items() if engine in ENGINES for part in range(parts)],
)
def test_onnx_judges(engine: str, part: int, parts: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(engine, part, parts)
    assert found.passed
    if parts > 1:
        return
    with capsys.disabled():
        passed = Counter(next(iter(kinds_of(found.models[name]))) for name in found.passed)
        by_operator = ", ".join(f"{kind} {count}" for kind, count in sorted(passed.items()))
        print(  # noqa: T201 - the count is asked for
            f"\nONNX backend node tests on {engine}: {len(found.passed):,} passed ({by_operator}),"
            f" {len(found.refused):,} refused"
        )
    assert len(found.passed) + len(found.refused) > 1500
    passed_kinds = {kind for name in found.passed for kind in kinds_of(found.models[name])}
    assert set(lowered_kinds()) - {*CONTRIB, *UNTESTED} <= passed_kinds

    if onnx.__version__ != pinned_version():
        pytest.skip(f"the guide counts the tests of onnx {pinned_version()}; this is {onnx.__version__}")
    guide, kinds = (ROOT / "docs" / "guides" / "onnx.md").read_text(), len(lowered_kinds())
    assert f"There are {kinds} node types" in guide
    said = re.search(r"ONNX backend node tests: ([\d,]+) passed, ([\d,]+) refused", guide)
    assert said, "the guide has a line of the counts"
    assert said.groups() == (f"{len(found.passed):,}", f"{len(found.refused):,}")
    every = f"{len(found.passed) + len(found.refused):,}"
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"Of ONNX's {every} node tests {said[1]} pass with DirectML's operators alone, for {kinds} node" in readme
    assert f"{every} node tests" in (ROOT / "docs" / "testing.md").read_text()
    told = re.search(REASONS, guide)
    assert told, "the guide has the reasons of refusals"
    reasons = Counter(reason_for(found.models[name]) for name in found.refused)
    assert [int(count) for count in told.groups()] == [reasons[k] for k in range(3)]


def pinned_version() -> str:
    """The version of onnx that the counts in the guide are of."""
    pins = [re.search(r"^onnx==([\w.]+)", path.read_text(), re.M) for path in (ROOT / "requirements").glob("*.txt")]
    (version,) = {pin[1] for pin in pins if pin}
    return version


def test_a_pool_that_onnx_has_no_test_of() -> None:
    x = np.random.default_rng(5).standard_normal((2, 3, 4, 5)).astype("float32")
    for power in (1, 2, 3):
        (y,) = Backend.run_node(node("GlobalLpPool", "x", "y", p=power), [x])
        wanted = np.linalg.norm(x.reshape(2, 3, 20), power, -1)
        np.testing.assert_allclose(y[..., 0, 0], wanted, 1e-5)
