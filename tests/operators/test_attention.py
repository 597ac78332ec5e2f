"""Attention: against PyTorch's, through a cache that stays in place, and what is said of tensors that do not fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.ir import attention as attending
from families.attention import MASKS
from families.broken_rules import ROOM, attention, cached
from places import get, put

pytestmark = pytest.mark.judges("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1")

T = dml.TensorDesc
ATTEND: Any = dml.multihead_attention
ATTEND1: Any = dml.multihead_attention1
RNG = np.random.default_rng(7)
Q, K = T("float32", (2, 3, 8)), T("float32", (2, 5, 8))


def numbers(data_type: str, *sizes: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(sizes).astype(data_type)


def in_heads(x: Any, count: int) -> Any:
    batch, length, hidden = x.shape
    return x.reshape(batch, length, count, hidden // count).swapaxes(1, 2)


@pytest.mark.parametrize("data_type", ["float32", "float16"])
def test_the_same_as_pytorch(engine: str, data_type: str) -> None:
    torch = pytest.importorskip("torch", reason="what it is compared with")
    attend = torch.nn.functional.scaled_dot_product_attention
    device, tolerance = dml.Device(engine), 2e-6 if data_type == "float32" else 2e-3
    q, k, v = (numbers(data_type, 2, length, 24) for length in (5, 9, 9))
    bias, kept = numbers(data_type, 2, 6, 5, 9), RNG.integers(0, 2, (2, 6, 5, 9)).astype("int32")
    kept[..., 0] = 1
    tensors = [torch.tensor(in_heads(x, 6).astype("float32")) for x in (q, k, v)]
    added = torch.tensor(bias.astype("float32")).masked_fill(torch.tensor(kept == 0), float("-inf"))
    given = [put(x, device) for x in (q, k, v)]
    more: dict[str, Any] = {
        "relative_position_bias": put(bias, device),
        "mask": put(kept, device),
        "mask_type": "BOOLEAN",
    }
    for extra, mask in (({}, None), (more, added)):
        got = ATTEND(*given, **extra, head_count=6, device=device).output
        wanted = attend(*tensors, attn_mask=mask).transpose(1, 2).reshape(2, 5, 24).numpy()
        np.testing.assert_allclose(get(got).astype("float32"), wanted, atol=tolerance, rtol=tolerance)
    grouped = [q, *(numbers(data_type, 2, 9, 8) for _ in range(2))]
    heads = [torch.tensor(in_heads(x, n).astype("float32")) for x, n in zip(grouped, (6, 2, 2), strict=True)]
    got = ATTEND1(
        *(put(x, device) for x in grouped), query_head_count=6, key_value_head_count=2, scale=0.3, device=device
    )
    wanted = attend(*heads, scale=0.3, enable_gqa=True).transpose(1, 2).reshape(2, 5, 24).numpy()
    np.testing.assert_allclose(get(got.output).astype("float32"), wanted, atol=tolerance, rtol=tolerance)


def test_a_cache_stays_in_place(engine: str) -> None:
    """What is there is kept, what lies after the last is not looked at, and steps give what the whole gives at once."""
    device, (batch, length, room) = dml.Device(engine), (2, 4, 6)
    heads: dict[str, Any] = {"query_head_count": 4, "key_value_head_count": 2}
    q, k, v = (numbers("float32", batch, length, hidden) for hidden in (12, 6, 6))

    def attend(caches: list[Any], first: int, last: int) -> Any:
        lengths = put(np.full(batch, first, "int32"), device)
        inputs = [put(np.ascontiguousarray(x[:, first:last]), device) for x in (q, k, v)]
        tensors = dict(zip(("query_tensor", "key_tensor", "value_tensor"), map(T.of, inputs), strict=True))
        fields: dict[str, Any] = dict(
            **tensors,
            past_sequence_lengths_tensor=T.of(lengths),
            output_tensor=T("float32", (batch, last - first, 12)),
            output_present_key_tensor=T.of(caches[0]),
            output_present_value_tensor=T.of(caches[1]),
            **heads,
        )
        desc = dml.MultiheadAttention1(**fields)
        out = put(np.empty((batch, last - first, 12), "float32"), device)
        device.compile(desc)(*inputs, lengths, out=[out, *caches])
        return get(out)

    empty = np.full((batch, 2, room, 3), np.nan, "float32")
    whole, steps = ([put(empty.copy(), device) for _ in range(2)] for _ in range(2))
    wanted = attend(whole, 0, length)
    assert np.isfinite(wanted).all()
    for first, last in ((0, 2), (2, 3), (3, 4)):
        np.testing.assert_allclose(attend(steps, first, last), wanted[:, first:last], atol=1e-6)
    for mine, other, new in zip(steps, whole, (k, v), strict=True):
        np.testing.assert_array_equal(get(mine), get(other))
        np.testing.assert_array_equal(get(mine)[:, :, :length], in_heads(new, 2))
        assert np.isnan(get(mine)[:, :, length:]).all()
    # The same in a graph, whose outputs are the caches; and from the past's tensors, which stay as they are.
    graph = dml.Graph(device)
    parts = [np.ascontiguousarray(x[:, 3:]) for x in (q, k, v)]
    three = np.full(batch, 3, "int32")
    given = [graph.input(x) for x in parts]
    lengths, caches = graph.input(three), [graph.input(get(x)) for x in whole]
    found = ATTEND1(
        *given,
        past_sequence_lengths=lengths,
        past_key=caches[0],
        past_value=caches[1],
        **heads,
        output_present_key=True,
        output_present_value=True,
    )
    arrays = [put(x, device) for x in (*parts, three)]
    compiled = graph.compile(found)
    results = compiled(*arrays, *whole)
    np.testing.assert_allclose(get(results[0]), wanted[:, 3:], atol=1e-6)
    for mine, other in zip(results[1:], whole, strict=True):
        np.testing.assert_array_equal(get(mine), get(other))
    # The past's memory may be the present's own, in a graph and in an operator alone, but not another's.
    names = ("past_key", "past_value", "output_present_key", "output_present_value")
    fields: dict[str, Any] = {f"{name}_tensor": T.of(whole[0]) for name in names}
    fields |= {f"{name}_tensor": T.of(x) for name, x in zip(("query", "key", "value"), parts, strict=True)}
    fields |= {"past_sequence_lengths_tensor": T.of(three), "output_tensor": T("float32", (batch, 1, 12))}
    operator = device.compile(dml.MultiheadAttention1(**fields, **heads))
    before = [get(x).copy() for x in whole]
    for run, order in ((compiled, (*arrays, *whole)), (operator, (*arrays[:3], *whole, arrays[3]))):
        out = put(np.empty((batch, 1, 12), "float32"), device)
        run(*order, out=[out, *whole])
        np.testing.assert_allclose(get(out), wanted[:, 3:], atol=1e-6)
        for mine, old in zip(whole, before, strict=True):
            np.testing.assert_array_equal(get(mine), old)
        with pytest.raises(dml.BindingError, match="does not run in place"):
            run(*order, out=[out, *whole[::-1]])
    # What is no output of the graph has no memory to keep: there are zeros before the new ones.
    output, key, _ = ATTEND1(
        *given, past_sequence_lengths=lengths, **heads, output_present_key=True, output_present_value=True
    )
    output, key = (get(x) for x in graph.compile([output, dml.identity(key)])(*arrays, *whole))
    np.testing.assert_allclose(output, np.repeat(in_heads(parts[2], 2), 2, 1).swapaxes(1, 2).reshape(2, 1, 12))
    np.testing.assert_array_equal(key, in_heads(parts[1], 2))


def test_scores_are_held_block_by_block(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits, of masks that look at coordinates too; and no more memory than a block takes."""
    device = dml.Device(engine)
    q, k, v = (numbers("float32", 2, 6, hidden) for hidden in (12, 6, 6))
    mask = np.array([4, 5, 0, 6, 12, 0, 7, 12], "int32")
    given: dict[str, Any] = {"past_sequence_lengths": put(np.array([0, 2], "int32"), device)}
    given |= {
        "past_key": put(numbers("float32", 2, 2, 8, 3), device),
        "past_value": put(numbers("float32", 2, 2, 8, 3), device),
    }
    more = {"mask": put(mask, device), "mask_type": "KEY_QUERY_SEQUENCE_LENGTH_START_END", **given}
    heads = {"query_head_count": 4, "key_value_head_count": 2}

    def attend() -> Any:
        tensors = [put(x, device) for x in (q, k, v)]
        graph = dml.Graph(device)  # compiled anew each time
        inputs = [graph.input(x) for x in (*tensors, *given.values(), more["mask"])]
        names = ("query", "key", "value", *given, "mask")
        found = ATTEND1(**dict(zip(names, inputs, strict=True)), mask_type=more["mask_type"], **heads)
        return get(graph.compile(found)(*tensors, *given.values(), more["mask"]))

    wanted = attend()
    monkeypatch.setattr(attending, "MOST_BLOCKS", 1000)
    for most in (1, 20, 50, 100, 200):
        monkeypatch.setattr(attending, "MOST_SCORES", most)
        np.testing.assert_array_equal(attend(), wanted)
    assert max(math.prod(block.sizes) for block in attending.blocks((2, 2, 2, 6, 8))) <= 200
    assert sum(math.prod(block.sizes) for block in attending.blocks((3, 5, 2, 7, 11))) == 3 * 5 * 2 * 7 * 11


def test_levels_and_what_follows() -> None:
    assert attention().scale == 0.5  # 1/√4
    lowest = [
        desc.check().lowest_level
        for desc in (attention(), cached(output_present_key_tensor=ROOM, output_present_value_tensor=ROOM))
    ]
    assert [str(level) for level in lowest] == ["6_1", "6_3"]
    assert [kind.value for kind in MASKS] == list(range(5))
