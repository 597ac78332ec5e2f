"""The walk over planes, a part of one at a time, by kernels of `taps`."""

from __future__ import annotations

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.stage import DECLARED, find_place, make_bases, make_stage, take_scratch
from anydml.engines.cpu.kernels.steps import Steps
from anydml.engines.cpu.kernels.taps_shape import MOST

WORDS = (
    "slots", "slot_count", "rows", "line", "parts", "down", "pitch", "tap_rows", "tap_columns", "weight_down",
    "weight_beside", "taps", "dots", "is_direct", "is_whole", "target_down", "frame", "lines", "reach", "left", "top",
    "source_rows", "source_line", "source_down", "frame_size", "fill", "bytes", "x_at", "weights_at", "result_at",
    "fill_at", "rank",
)  # fmt: skip
"""After the header, and before the batch's sizes: `down` is from a row of results to the next, in the input. Results
are written by the taps' kernel where `is_direct`; otherwise they are computed from folds in the scratch, all of a part
at once where `is_whole`, or row by row. Bytes go to `dots`, if it is there, where weights less their zero point are
bytes still.

Where `frame` is not 0 lines of as many bytes are made of the input's, with margins: those of a part, `lines` for each
row of results and `reach` for the last. `source_line` bytes of each of `source_rows` lines lie from `left` on, the
first in line `top`; around them is `fill`, four bytes, or a byte at `fill_at`. Kernels that know margins read the
input's own lines: `frame` and `down` are 0, and one line is filled."""

WEIGHTS, WEIGHTS_SIGNED, WEIGHTS_ZERO, WEIGHTS_ZERO_SIGNED, ZERO, ZERO_SIGNED, AS_THEY_LIE = (1 << k for k in range(7))
"""The parts of `bytes`: whether weights are bytes, have signs, have a zero point, which has a sign; likewise for the
input's zero point. Their section has the weights, and those that are there. `dots` takes some as they lie: bytes with
signs, side by side, without zero points."""


def make_planes(scratch: int, results: int) -> str:
    """The text of the walk, for a scratch with room for results first, then for lines. Compiled once for all."""
    text = Steps()
    for i, name in enumerate(WORDS):
        text.read(name, f"words + {8 * (HEADER + i)}")
    for name in ("x", "weights", "result", "filler"):
        text.let(name, f"words + {'fill' if name == 'filler' else name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
    text.read("views", "result + 8")
    text.room("places", VIEWS)
    text.room("weight", MOST // 2 + 1)
    text.room("weight_at", 1)
    text.put("weight_at", "weight")
    text.room("zeros", 2)
    take_scratch(text, scratch)
    text.room("chosen", 1)
    text.put("chosen", "taps")
    text.let("memory", "scratch + 64")
    text.let("framed", f"memory + {results}")
    _fill_margins(text)
    text.room("bounds", 2)
    text.room("carry", 1)
    text.let("plane_first", "begin // parts")
    find_place(text, "plane_first", HEADER + len(WORDS))
    with text.loop("plane", "plane_first", "(end + parts - 1) // parts"):
        _find_bases(text)
        with text.when("tap_rows"):
            _bring_weights(text)
        with text.loop("part", "max(begin - plane * parts, 0)", "min(end - plane * parts, parts)"):
            _compute_part(text)
        _go_on(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    walk = text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")
    return "\n".join([make_stage(), make_bases(), walk, DECLARED])


def _compute_part(text: Steps) -> None:
    """Some rows of a plane. A plane of 14 x 14 takes less time than a few divisions."""
    text.put("bounds", 0)
    text.put("bounds + 8", "rows")
    with text.when("parts > 1"):
        text.put("bounds", "(rows * part) // parts")
        text.put("bounds + 8", "(rows * (part + 1)) // parts")
    text.read("first", "bounds")
    text.read("stop", "bounds + 8")
    text.let("some", "stop - first")
    text.read("x_base", "x_bases")
    with text.when("frame"):
        _make_lines(text)
    text.read("target", "result_bases + views * 8 - 8")
    text.let("out", "target + first * target_down if is_direct != 0 else memory")
    text.let("out_step", "target_down if is_direct != 0 else line * 4")
    text.read("kernel", "chosen")
    text.read("given", "weight_at")
    text.let("begins", "framed if frame != 0 else x_base + first * down")
    where = ("first", "first * lines - top", "source_rows", "framed")
    text.invoke(
        "kernel", "begins", "pitch", "given", "out", "out_step", "some", "line", "result", "result_bases", *where
    )
    with text.when("is_direct == 0 and is_whole"):
        text.invoke("@stage", "result", "result_bases", 0, "first * line", 1, "some * line", 0, "memory", 0)
    with text.when("is_direct == 0 and is_whole == 0"):
        text.invoke("@stage", "result", "result_bases", "first", 0, "some", "line", 0, "memory", "line * 4")


def _find_bases(text: Steps) -> None:
    """Where a plane's views begin: a step on from the last one's, unless that was the last along its dimension."""
    text.read("along", "places + rank * 8")
    text.let("is_far", "1 if plane == plane_first or along == 0 else 0")
    for name in ("x", "weights", "result"):
        with text.when("is_far"):
            text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
        text.read(f"{name}_views", f"{name} + 8")
        text.read(f"{name}_numbers", f"{name} + 16")
        # After three words a section has three of each view, and one of each number, then strides by dimension.
        text.let(f"{name}_steps", f"{name} + 24 + ({name}_numbers + {name}_views * (2 + rank)) * 8")
        with text.loop(f"{name}_v", 0, f"0 if is_far else {name}_views"):
            text.read(f"{name}_old", f"{name}_bases + {name}_v * 8")
            text.read(f"{name}_step", f"{name}_steps + {name}_v * 8")
            text.put(f"{name}_bases + {name}_v * 8", f"{name}_old + {name}_step")


def _go_on(text: Steps) -> None:
    """To the next plane of the batch, as an odometer does."""
    text.put("carry", 1)
    with text.loop("wheel", 0, "rank"):
        text.let("place_at", "places + (rank - wheel) * 8")
        text.read("wheel_count", f"words + ({HEADER + len(WORDS)} + rank - 1 - wheel) * 8")
        text.read("carried", "carry")
        text.read("wheel_at", "place_at")
        text.let("moved", "wheel_at + carried")
        text.put("place_at", "0 if moved == wheel_count else moved")
        text.put("carry", "1 if moved == wheel_count else 0")


def _fill_margins(text: Steps) -> None:
    """Fill all lines once: what units write of them are the same elements."""
    text.put("places", "fill")
    with text.when("fill_at"):
        text.invoke("@bases", "filler", 0, 0, "filler_bases")
        text.read("filling", "filler_bases")
        byte = text.new(f"load i8, ptr {text.place('filling')}, align 1")
        text.add(f"%byte = zext i8 {byte} to i64")
        text.put("places", "byte * 16843009")
    text.add(f"%filled = load i32, ptr {text.place('places')}")
    with text.loop("f", 0, "frame_size", 4):
        text.add(f"store i32 %filled, ptr {text.place('framed + f')}, align 4")


def _make_lines(text: Steps) -> None:
    """The lines of a part; those above and below the input are filled again, since other parts have others there."""
    text.let("line_first", "first * lines")
    with text.loop("i", 0, "(some - 1) * lines + reach"):
        text.let("there", "line_first + i - top")
        text.let("here", "framed + i * frame")
        with text.when("there >= 0 and there < source_rows"):
            to, source = text.place("here + left"), text.place("x_base + there * source_down")
            text.add(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 %source_line, i1 false)")
        with text.when("there < 0 or there >= source_rows"), text.loop("g", 0, "frame", 4):
            text.add(f"store i32 %filled, ptr {text.place('here + g')}, align 1")
    text.declared["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"] = None


def _bring_weights(text: Steps) -> None:
    text.read("source", "weights_bases")
    with text.when("bytes == 0 and tap_rows == 1 and weight_beside == 4"):
        text.put("weight_at", "source")
    is_apart = "bytes == 0 and (tap_rows > 1 or weight_beside != 4)"
    with text.when(is_apart), text.loop("a", 0, "tap_rows"), text.loop("b", 0, "tap_columns"):
        found = text.new(f"load i32, ptr {text.place('source + a * weight_down + b * weight_beside')}, align 4")
        text.add(f"store i32 {found}, ptr {text.place('weight + (a * tap_columns + b) * 4')}, align 4")
    with text.when(f"bytes == {AS_THEY_LIE}"):
        text.put("weight_at", "source")
        text.put("chosen", "dots")
    with text.when(f"bytes and bytes != {AS_THEY_LIE}"):
        _bring_bytes(text)


def _bring_bytes(text: Steps) -> None:
    """Weights less their zero point, and the input's; kernels are chosen by whether those are bytes still."""
    text.put("zeros", 0)
    text.put("zeros + 8", 0)
    with text.when(f"bytes & {WEIGHTS_ZERO}"):
        text.read("zero_at", "weights_bases + 8")
        text.put("zeros", _byte(text, "zero_at", WEIGHTS_ZERO_SIGNED))
    with text.when(f"bytes & {ZERO}"):
        text.read("other_at", f"weights_bases + 8 + (8 if bytes & {WEIGHTS_ZERO} else 0)")
        text.put("zeros + 8", _byte(text, "other_at", ZERO_SIGNED))
    text.read("less", "zeros")
    text.read("zero", "zeros + 8")
    text.add(f"store i32 {text.new('trunc i64 %zero to i32')}, ptr {text.place(f'weight + {4 * MOST}')}, align 4")
    text.put("chosen", "dots if dots != 0 else taps")
    with text.loop("h", 0, "tap_rows"), text.loop("w", 0, "tap_columns"):
        number = _byte(text, "source + h * weight_down + w * weight_beside", WEIGHTS_SIGNED)
        text.let("tap", f"{number} - less")
        place = text.place("weight + (h * tap_columns + w) * 4")
        text.add(f"store i32 {text.new('trunc i64 %tap to i32')}, ptr {place}, align 4")
        with text.when("tap < 0 - 128 or tap > 127"):
            text.put("chosen", "taps")


def _byte(text: Steps, place: str, sign: int) -> str:
    """The byte at an address, as a name that lines take: with its sign where a bit of `bytes` says so."""
    found = text.new(f"load i8, ptr {text.place(place)}, align 1")
    numbers = [text.new(f"{widen} i8 {found} to i64") for widen in ("sext", "zext")]
    test = text.new(f"icmp ne i64 {text.value(f'bytes & {sign}')}, 0")
    return text.new(f"select i1 {test}, i64 {numbers[0]}, i64 {numbers[1]}")[1:]
