"""Random numbers in ONNX models, and inputs that a run makes up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import node, onnx

from anydml.onnx import Backend, load  # isort: skip - after the models, which leave this out where onnx is missing
from typing import TYPE_CHECKING

from modelling import program
from onnx_models import model

if TYPE_CHECKING:
    from pathlib import Path

T = onnx.TensorProto
COUNT = 20_000


def drawing(*nodes: Any, inputs: dict[str, Any] | None = None, outputs: dict[str, int]) -> bytes:
    def info(name: str, kind: int, shape: Any) -> Any:
        return onnx.helper.make_tensor_value_info(name, kind, shape)

    given = [info(name, *one) for name, one in (inputs or {}).items()]
    graph = onnx.helper.make_graph(nodes, "g", given, [info(name, kind, None) for name, kind in outputs.items()])
    made: bytes = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    ).SerializeToString()
    return made


def far(found: float, wanted: float, deviation: float) -> bool:
    """Whether a mean of COUNT numbers is more than six of its deviations from what it should be."""
    return bool(abs(found - wanted) > 6 * deviation / COUNT**0.5)


@pytest.mark.parametrize(("kind", "dtype"), [(T.FLOAT, "float32"), (T.FLOAT16, "float16"), (T.DOUBLE, "float64")])
def test_numbers_have_their_distributions(kind: int, dtype: str) -> None:
    made = drawing(
        node("RandomUniform", "", "u", shape=[COUNT], low=-2.0, high=3.0, dtype=kind),
        node("RandomNormal", "", "n", shape=[2, COUNT // 2], mean=1.0, scale=2.0, dtype=kind),
        node("RandomUniformLike", "x", "v", dtype=kind),
        node("RandomNormalLike", "x", "w", dtype=kind),
        inputs={"x": (T.INT32, [COUNT])},
        outputs=dict.fromkeys("unvw", kind),
    )
    results = load(made).run({"x": np.zeros(COUNT, "int32")})
    assert all(one.dtype == dtype for one in results.values())
    u, n, v, w = (one.astype("float64").ravel() for one in results.values())
    assert -2 <= u.min() < -1.99 < 2.99 < u.max() <= 3
    assert 0 <= v.min() < v.max() < 1
    for found, mean, deviation in ((u, 0.5, 25**0.5 / 12**0.5), (n, 1, 2), (v, 0.5, 1 / 12**0.5), (w, 0, 1)):
        assert not far(found.mean(), mean, deviation)
        assert not far(((found - mean) ** 2).mean(), deviation**2, 1.5 * deviation**2)
    assert not far((np.abs(w) > 2).mean(), 0.0455, 0.21)
    assert abs(np.corrcoef(w[::2], w[1::2])[0, 1]) < 0.06


def test_draws_by_chances() -> None:
    chances = np.array([[0.2, 0.5, 0.3], [0, 0.1, 0.9]], "float32")
    made = drawing(
        node("Bernoulli", "p", "b", dtype=T.INT32),
        node("Multinomial", "l", "m", sample_size=COUNT, dtype=T.INT64),
        node("Dropout", "x r t", "y k"),
        inputs={"p": (T.FLOAT, [COUNT]), "l": (T.FLOAT, [2, 3]), "x": (T.FLOAT, [COUNT]), "r": (T.FLOAT, []),
                "t": (T.BOOL, [])},
        outputs={"b": T.INT32, "m": T.INT64, "y": T.FLOAT, "k": T.BOOL},
    )  # fmt: skip
    p = np.repeat(np.array([0, 0.3, 1], "float32"), COUNT // 3 + 1)[:COUNT]
    x = np.linspace(1, 2, COUNT, dtype="float32")
    with np.errstate(divide="ignore"):
        logs = np.log(chances)
    feeds = {"p": p, "l": logs, "x": x, "r": np.array(0.25, "float32"), "t": np.array(True)}
    b, m, y, kept = load(made).run(feeds).values()
    assert not b[p == 0].any()
    assert b[p == 1].all()
    assert not far(b.mean(), p.mean(), 0.5)
    for row, wanted in zip(m, chances, strict=True):
        assert all(not far((row == k).mean(), chance, 0.5) for k, chance in enumerate(wanted))
    assert not far(kept.mean(), 0.75, 0.5)
    np.testing.assert_allclose(y, np.where(kept, x / np.float32(0.75), 0), rtol=1e-6)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_runs_differ_and_seeds_come_back(engine: str) -> None:
    made = drawing(
        node("RandomUniform", "", "a", shape=[4, 5], seed=7.0),
        node("RandomUniform", "", "b", shape=[4, 5], seed=7.0),
        node("RandomUniform", "", "c", shape=[4, 5]),
        outputs=dict.fromkeys("abc", T.FLOAT),
    )
    first, again = (load(made, device=engine) for _ in range(2))
    runs = [[*one.run({}).values()] for one in (first, first, again, again)]
    for a, b, _ in runs:
        np.testing.assert_array_equal(a, b)
    for k in range(2):
        np.testing.assert_array_equal(runs[k][0], runs[2 + k][0])
    different = [runs[0][0], runs[1][0], *(run[2] for run in runs)]
    assert len({one.tobytes() for one in different}) == len(different)
    words = dml.random_generator(
        np.array([0, 0, 1, 0, *np.float64(7).reshape(1).view("uint32")], "uint32"), (4, 5)
    ).output
    np.testing.assert_array_equal(runs[1][0], (words >> 8).astype("float32") * np.float32(2**-24))


BROKEN = [
    (node("RandomUniform", "", "y", shape=[-1]), [], "shape must be given, with sizes of at least 0; got"),
    (node("Multinomial", "x", "y", sample_size=0), [np.ones((1, 2), "float32")], "sample_size must be at least 1"),
    (node("Multinomial", "x", "y"), [np.ones(2, "float32")], "input must have 2 dimensions, {batch, classes}"),
    (node("Dropout", "x r t", "y"), [np.ones(2, "float32"), np.array(1, "float32"), np.array(True)],
     "ratio must be at least 0 and less than 1; got 1.0"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "arrays", "message"), BROKEN, ids=[message[:30] for *_, message in BROKEN])
def test_what_does_not_fit_is_told(broken: Any, arrays: list[Any], message: str) -> None:
    with pytest.raises(dml.ModelError) as caught:
        Backend.run_node(broken, arrays)
    assert message in str(caught.value)


X, ONE = ("float32", [3, 20]), np.array([1])
CAST = node("Cast", "i", "j", to=7)


@pytest.mark.parametrize(
    ("nodes", "inputs", "constants"),
    [
        (node("GatherND", "x i", "y"), {"x": ("float32", [1, 3, 4]), "i": ("int64", [9, 2])}, {}),
        (node("GatherND", "x i", "y", batch_dims=1), {"x": ("float32", [2, 1]), "i": ("int64", [2, 9, 1])}, {}),
        (
            node("ScatterND", "x i u", "y"),
            {"x": ("float32", [1, 3]), "i": ("int64", [9, 2]), "u": ("float32", [9])},
            {},
        ),
        ([CAST, node("Gather", "x j", "y")], {"x": X, "i": ("int32", [50])}, {}),
        (
            [CAST, node("Unsqueeze", "j one", "k"), node("GatherND", "x k", "y")],
            {"x": X, "i": ("int32", [50])},
            {"one": ONE},
        ),
        (
            [node("Concat", "i j", "k", axis=0), node("Gather", "x k", "y", axis=1)],
            {"x": X, "i": ("int64", [50]), "j": ("int64", [5])},
            {},
        ),
    ],
)
def test_indices_that_are_made_up_lie_in_their_dimensions(
    tmp_path: Path, nodes: Any, inputs: dict[str, Any], constants: dict[str, Any]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model(nodes, inputs, "y", constants).SerializeToString())
    for seed in range(3):
        result = program("run", path, "--seed", seed, "--engine", "reference")
        assert result.exit_code == 0, result.output


def test_what_a_model_asks_for_and_is_not_built_says_where_to_look(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model(node("Reluu", "x", "y"), {"x": X}).SerializeToString())
    result = program("run", path)
    assert result.exit_code == 1
    assert "ONNX has no node type Reluu at opset 17; did you mean Relu? `anydml support --onnx`" in result.output
    assert program("check", "--concise", path).output.splitlines() == [
        f"{path}: E204 node of 'y' (Reluu): ONNX has no node type Reluu at opset 17; did you mean Relu?",
        f"{path}: invalid: 1 of 1 node cannot run at feature level 6_4: 1 Reluu",
    ]
