"""Files that nobody meant: models of which a few bytes are changed, or a number of an attribute is enormous."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import anydml as dml
from anydml.dxdispatch import load_model
from modelling import EVERY
from modelling import model_of as small_model
from stress import models
from stress.work import Array, Work, folder

if TYPE_CHECKING:
    import random
    from types import FrameType

MOST_MEMORY = 256 * 2**20
PATIENCE = 2.0
"""Seconds after which work is interrupted that an enormous attribute makes long."""
HUGE = (2**16, 2**20, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, -1, -(2**31), -(2**63))


def odd(rng: random.Random) -> Work:
    """An ONNX or DxDispatch model with changed bytes: refused in words, or run, on both engines alike."""
    if models.IS_THERE and rng.random() < 0.3 and (found := huge(rng)) is not None:
        return found
    if models.IS_THERE and rng.random() < 0.7:
        proto, arrays, about = models.pick_model(rng)
        changed = change(proto.SerializeToString(), rng)

        def run_onnx(device: str) -> list[Array]:
            import anydml.onnx

            loaded = anydml.onnx.load(changed, device=device)
            return list(loaded.run({name: arrays[name] for name in loaded.inputs if name in arrays}).values())

        return Work("odd", f"changed: {about}", lambda: run_onnx("reference"), lambda: run_onnx("cpu"), is_exact=False)
    desc: dml.OperatorDesc = rng.choice(EVERY)
    text = change(json.dumps(small_model(desc)).encode(), rng)

    def run_model(device: str) -> list[Array]:
        with folder() as place:
            path = place / "model.json"
            path.write_bytes(text)
            return list(load_model(path, max_memory=MOST_MEMORY).run(device).resources.values())

    return Work(
        "odd", f"changed: {desc.type.name}", lambda: run_model("reference"), lambda: run_model("cpu"), is_exact=False
    )


def huge(rng: random.Random) -> Work | None:
    """An ONNX model with an attribute that is enormous: refused in words, run, or interrupted; None without attributes."""
    proto, arrays, about = models.pick_model(rng)
    changed = type(proto).FromString(proto.SerializeToString())
    numbers = [one for node in changed.graph.node for one in node.attribute if one.ints or one.HasField("i")]
    if not numbers:
        return None
    attribute, value = rng.choice(numbers), rng.choice(HUGE)
    if attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = value
    else:
        attribute.i = value

    def run() -> list[Array]:
        import anydml.onnx

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)
            loaded = anydml.onnx.load(changed, device="cpu", max_memory=MOST_MEMORY)
            loaded.run({name: arrays[name] for name in loaded.inputs if name in arrays})
        except (dml.DmlError, KeyboardInterrupt):
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return []

    return Work("huge", f"{about}, {attribute.name} with {value}", list, run)


def change(data: bytes, rng: random.Random) -> bytes:
    """Flip, insert, leave out and repeat bytes, in one to four places."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(made))
        kind = rng.choice(("flip", "set", "insert", "drop", "repeat", "large"))
        if kind == "flip":
            made[at] ^= 1 << rng.randrange(8)
        elif kind == "set":
            made[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, ord("-"), ord("9")))
        elif kind == "insert":
            made[at:at] = rng.randbytes(rng.randint(1, 4))
        elif kind == "drop":
            del made[at : at + rng.randint(1, 4)]
        elif kind == "repeat":
            made[at:at] = made[at : at + rng.randint(1, 16)]
        else:
            made[at : at + 1] = rng.choice((b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"999999999999", b"1e308"))
        made = made or bytearray(b"\0")
    return bytes(made)
