"""The webgpu engine's attention in one pass against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adapter_runs import engine, route, run
from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.engines.webgpu import why_missing
from anydml.ir import expressions as ex
from anydml.ir.attention import Attend
from anydml.ir.views import View

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
F16, F32, I32, I64 = (DataType(name) for name in ("float16", "float32", "int32", "int64"))
CLOSE = {F32: 4e-6, F16: 3e-3}


def attend(sizes: tuple[int, ...], of: DataType, kind: str) -> tuple[Attend, dict[str, Any]]:
    """An attention, and its tensors: two heads share keys and values, and the numbers of a value lie apart."""
    batch, heads, queries, keys, size, value_size = sizes
    random = np.random.default_rng(0)
    shapes = {
        "q": (batch, heads, queries, size),
        "k": (batch, heads // 2, keys, size),
        "v": (batch, heads // 2, value_size, keys),
        "y": (batch, heads, queries, value_size),
    }
    arrays: dict[str, Any] = {
        name: random.standard_normal(shape, np.float32).astype(of.dtype) for name, shape in shapes.items()
    }
    own = {name: packed_strides(shape) for name, shape in shapes.items()}
    walk = (batch, heads // 2, 2, queries, keys)
    views = [
        View("q", of, (*walk[:4], size), (own["q"][0], 2 * own["q"][1], *own["q"][1:])),
        View("k", of, (*walk[:3], keys, size), (*own["k"][:2], 0, *own["k"][2:])),
        View("v", of, (*walk[:3], keys, value_size), (*own["v"][:2], 0, 1, own["v"][2])),
    ]
    target = View("y", of, (*walk[:4], value_size), (own["y"][0], 2 * own["y"][1], *own["y"][1:]))
    score, limit = ex.load(0, F32) * ex.const(0.3, F32), None
    if kind == "mask":
        mask = random.standard_normal((queries, keys), np.float32)
        mask[3] = mask[5, 7:] = mask[6, :70] = -np.inf  # a row of which nothing is seen, and chunks
        arrays["mask"] = mask
        views.append(View("mask", F32, walk, (0, 0, 0, keys, 1)))
        score = score + ex.load(1, F32)
    if kind == "limit":
        lengths = arrays["lengths"] = np.array([keys - queries - 3, 0], "int32")
        views.append(View("lengths", I32, walk, (1, 0, 0, 0, 0)))
        limit = ex.load(1, I32).to(I64) + ex.coordinate(3) + 1
        for b in range(batch):  # what nobody sees is not looked at
            arrays["k"][b, :, lengths[b] + queries :] = np.nan
            arrays["v"][b, :, :, lengths[b] + queries :] = np.nan
    return Attend(tuple(views), target, score, limit), arrays


def expected(arrays: dict[str, Any], heads: int) -> Any:
    """The answer."""
    q, k, v = (np.nan_to_num(arrays[name].astype(np.float64)) for name in "qkv")
    k, v = (np.repeat(x, 2, 1) for x in (k, v))
    scores = 0.3 * q @ k.swapaxes(-1, -2) + arrays.get("mask", 0.0)
    if "lengths" in arrays:
        i, j = np.indices(scores.shape[-2:])
        seen = j <= arrays["lengths"][:, None, None, None] + i
        scores[~np.repeat(seen, heads, 1)] = -np.inf
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v.swapaxes(-1, -2)


@pytest.mark.parametrize(
    ("sizes", "of", "kind"),
    [
        ((1, 2, 77, 131, 20, 36), F32, "mask"),
        ((2, 2, 65, 70, 19, 33), F16, "limit"),
        ((1, 4, 17, 70, 12, 66), F32, ""),
        pytest.param((2, 4, 64, 128, 32, 64), F16, "mask", marks=pytest.mark.long),
        pytest.param((2, 2, 17, 75, 8, 9), F32, "limit", marks=pytest.mark.long),
        pytest.param((1, 2, 70, 64, 33, 255), F16, "", marks=pytest.mark.long),
        pytest.param((1, 2, 20, 100, 1, 256), F16, "mask", marks=pytest.mark.long),
    ],
    ids=str,
)
def test_several_tiles(sizes: tuple[int, ...], of: DataType, kind: str) -> None:
    verb, arrays = attend(sizes, of, kind)
    assert route(verb) == "attention"
    found, wanted = run(verb, arrays).reshape(arrays["y"].shape), expected(arrays, sizes[1])
    assert np.isnan(wanted).any() == (kind == "mask")
    np.testing.assert_allclose(found.astype(np.float64), wanted, CLOSE[of], CLOSE[of])


def test_what_is_spelled_out() -> None:
    """A few queries, and values that have no room in registers."""
    for sizes in ((1, 2, 15, 64, 8, 8), (1, 2, 16, 64, 8, 257)):
        assert not engine().takes(attend(sizes, F32, "")[0])
    assert engine().takes(attend((1, 2, 16, 64, 8, 256), F32, "")[0])
    assert not engine().takes(attend((1, 2, 16, 0, 8, 8), F32, "")[0])
