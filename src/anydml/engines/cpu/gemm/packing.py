"""Packing of A and B into panels for the microkernel: rows side by side, step by step along K.

`kernel(source, row.step, step, rows, count, target)` lays out the element of row r and step k at target[k·pitch + r],
converted. Rows come by groups of `GROUP`; in the last group the last row stands for those that there are not: nobody
reads what is computed from them. Rows that lie side by side may be those of several whole panels, one after the other.

Rows whose steps lie side by side may be laid out in lines instead, which is a copy: `LINED` steps of each row, then as
many of each again, in target[k // LINED][r][k % LINED].

Of windows, which lie w, the steps are addresses of tables: of each row's distance from the source, and of each step's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.families import figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


GROUP = 4
"""Rows at once where they lie anyhow. Where vectors are longer, windows come by whole ones if they can: a convolution
of 3 x 3, 64 channels to 64, took 1.4 times ONNX Runtime's time by fours, and takes 1.1 times (one thread, 16 lanes)."""
LINED = 16
"""Steps of a row that are laid out side by side: a line of the cache."""
SOURCES = {"f32": "float", "f16": "half", "i32": "i32"}


class Packing(NamedTuple):
    """The parameters of a packing's text."""

    lie: str
    """How elements lie: p where rows are side by side, t where steps are, w where tables say it, s otherwise; l
    where steps are, and they are laid out in lines."""
    kind: str
    """Of the source; the target's is `f32` for floats."""
    panel: int
    """The rows of a whole panel."""
    pitch: int
    """The elements from one step to the next."""
    lanes: int = GROUP
    """Of the CPU's vectors: of a vector rows are packed at once where they lie side by side, or every other one."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return "pack " + " ".join(map(str, self))


def make_pack(packing: Packing) -> str:
    """The text of the kernel."""
    return _Pack(packing).write()


def _pieces(panel: int, lanes: int) -> Iterator[tuple[int, int]]:
    """A panel's rows in vectors, each half of a vector's where there are no more: the first row, and how many."""
    row = 0
    while row < panel:
        while lanes > panel - row:
            lanes //= 2
        yield row, lanes
        row += lanes


class _Pack:
    def __init__(self, packing: Packing) -> None:
        self.packing, self.text = packing, Steps()
        self.source = SOURCES[packing.kind]
        self.target = "i32" if packing.kind == "i32" else "float"
        self.width = 2 if packing.kind == "f16" else 4

    def write(self) -> str:
        text, packing = self.text, self.packing
        if packing.lie == "w":
            self._write_windows()
            return self._define()
        if packing.lie == "l":
            self._write_lines()
            return self._define()
        if packing.lie == "p":  # along all panels: a row of the cache's lines is read once
            with text.when(f"rows % {packing.panel} == 0"):
                text.let("panel", f"count * {4 * packing.pitch}")
                steps = figures().gemm.packed_steps
                text.let("deep", f"count - count % {steps}")
                with text.loop("k", 0, "deep", steps):
                    self._rows("k", steps)
                with text.loop("z", "deep", "count"):
                    self._rows("z", 1)
                text.add("ret void")
                text.add(f"{text.label()}:")
        span = figures().gemm.packed_span
        with text.loop("s", 0, "count", span if packing.lie == "t" else "max(count, 1)"):
            text.let("end", f"min(s + {span}, count)" if packing.lie == "t" else "count")
            with text.loop("r", 0, "rows", GROUP):
                self._write_group()
        return self._define()

    def _write_group(self) -> None:
        """Some rows, along the steps from s on to the end."""
        text, packing = self.text, self.packing
        text.let("to_0", "target + r * 4")
        for i in range(GROUP):
            text.let(f"row{i}", f"source + min(r + {i}, rows - 1) * row_step")
        text.let("whole", self._whole())
        if packing.lie == "p":
            with text.loop("q", 0, "whole"):
                self._store(self._load("row0 + q * step", 0, GROUP), f"to_0 + q * {4 * packing.pitch}", 0, GROUP)
        if packing.lie == "t":
            with text.loop("q", "s", "min(end, whole)", GROUP):
                # The next panel's rows, a line of one of them at a time.
                far = f"source + (r + {packing.panel} + (q // {GROUP}) % {GROUP}) * row_step + q * {self.width}"
                text.fetch(text.place(far))
                rows = [self._load(f"row{i} + q * {self.width}", 0, GROUP) for i in range(GROUP)]
                for i, column in enumerate(self._transpose(rows)):
                    self._store(column, f"to_0 + q * {4 * packing.pitch}", 4 * packing.pitch * i, GROUP)
        with text.loop("t", "max(s, whole)", "end"):
            value = "poison"
            for i in range(GROUP):
                one = text.new(f"load {self.source}, ptr {text.place(f'row{i} + t * step')}, align 1")
                value = text.new(f"insertelement <{GROUP} x {self.source}> {value}, {self.source} {one}, i32 {i}")
            self._store(self._widen(value, GROUP), f"to_0 + t * {4 * packing.pitch}", 0, GROUP)

    def _whole(self) -> str:
        """The steps of a group that are packed by vectors: along rows, which must be there, or along steps."""
        return {"p": f"count if r + {GROUP} <= rows else 0", "t": f"count - count % {GROUP}"}.get(self.packing.lie, "0")

    def _write_lines(self) -> None:
        """Row by row. Tiles have those of the next panel fetched meanwhile."""
        text, lanes, width = self.text, self.packing.lanes, self.width
        text.let("line", f"rows * {4 * LINED}")
        text.let("whole", f"count - count % {LINED}")
        with text.loop("r", 0, "rows"):
            text.let("row", "source + r * row_step")
            text.let("to", f"target + r * {4 * LINED}")
            with text.loop("q", 0, "whole", LINED):
                for first in range(0, LINED, lanes):
                    found = self._load(f"row + q * {width}", width * first, lanes)
                    self._store(found, f"to + q // {LINED} * line", 4 * first, lanes)
            with text.loop("t", "whole", "count"):
                one = text.new(f"load <1 x {self.source}>, ptr {text.place(f'row + t * {width}')}, align 1")
                self._store(self._widen(one, 1), f"to + whole // {LINED} * line + (t - whole) * 4", 0, 1)

    def _write_windows(self) -> None:
        """A vector of rows at once where there are no more than two runs of them; by fours where there are."""
        text, lanes = self.text, self.packing.lanes
        if lanes == GROUP:
            self._write_groups("0", "rows")
            return
        with text.loop("w", 0, "rows", lanes):
            for i in range(lanes):
                text.read(f"from{i}", f"row_step + min(w + {i}, rows - 1) * 8")
            # Rows before which a run ends, the first of them and the last.
            text.let(f"first{lanes}", lanes)
            text.let("last0", 0)
            for i in range(1, lanes):
                down, up = lanes - i, i
                text.let(f"first{down}", f"{down} if from{down} != from{down - 1} + {self.width} else first{down + 1}")
                text.let(f"last{up}", f"{up} if from{up} != from{up - 1} + {self.width} else last{up - 1}")
            text.let(
                "runs",
                f"0 if w + {lanes} > rows else 1 if first1 == {lanes} else 2 if first1 == last{lanes - 1} else 0",
            )
            tests = " and ".join(f"from{i} == from0 + {2 * i * self.width}" for i in range(1, lanes))
            text.let("others", f"1 if w + {lanes} <= rows and {tests} else 0")
            text.let("to_w", "target + w * 4")
            text.let("row_w", "source + from0")
            with text.when("runs == 1"), text.loop("q1", 0, "count"):
                self._put_wide("q1", lambda: self._load("row_w + far_q1", 0, lanes))
            with text.when("others"), text.loop("q2", 0, "count"):
                self._put_wide("q2", lambda: self._every_other("row_w + far_q2"))
            by_four = "w if runs == 1 or others else min(w + {}, rows)"
            if self.width == 4:
                by_four = "w if runs or others else min(w + {}, rows)"
                self._write_two_runs()
            text.let("end_w", by_four.format(lanes))
            self._write_groups("w", "end_w")

    def _put_wide(self, q: str, take: Callable[[], str]) -> None:
        """A step of a vector of rows."""
        self.text.read(f"far_{q}", f"step + {q} * 8")
        self._store(take(), f"to_w + {q} * {4 * self.packing.pitch}", 0, self.packing.lanes)

    def _every_other(self, line: str) -> str:
        """A vector of every other element; the one after the last may not be there."""
        lanes = self.packing.lanes
        low, high = (self._load(line, self.width * first, lanes) for first in (0, lanes - 1))
        order = ", ".join(f"i32 {2 * k if 2 * k < lanes else 2 * k + 1}" for k in range(lanes))
        kind = f"<{lanes} x {self.target}>"
        return self.text.new(f"shufflevector {kind} {low}, {kind} {high}, <{lanes} x i32> <{order}>")

    def _write_two_runs(self) -> None:
        """A vector of rows, some of one run and the others of the next: each is read where its elements are."""
        text, lanes = self.text, self.packing.lanes
        kind, bits, call = (
            f"<{lanes} x {self.target}>",
            f"<{lanes} x i1>",
            f"@llvm.masked.load.v{lanes}{self.packing.kind}.p0",
        )
        text.declared[f"declare {kind} {call}(ptr, i32, {bits}, {kind})"] = None
        with text.when("runs == 2"):
            text.read("from_b", "row_step + (w + first1) * 8")
            text.let("row_b", f"source + from_b - first1 * {self.width}")
            border = text.spread(text.new("trunc i64 %first1 to i32"), "i32", lanes)
            places = ", ".join(f"i32 {i}" for i in range(lanes))
            own = text.new(f"icmp ult <{lanes} x i32> <{places}>, {border}")
            ones = ", ".join(["i1 true"] * lanes)
            next_ = text.new(f"xor {bits} {own}, <{ones}>")

            def take() -> str:
                one = "zeroinitializer"
                for row, mask in (("row_w", own), ("row_b", next_)):
                    place = text.place(f"{row} + far_q3")
                    one = text.new(f"call {kind} {call}(ptr {place}, i32 1, {bits} {mask}, {kind} {one})")
                return one

            with text.loop("q3", 0, "count"):
                self._put_wide("q3", take)

    def _write_groups(self, start: str, stop: str) -> None:
        """Four rows at once, which lie side by side but where a line of windows ends, or they are strides apart."""
        text, pitch = self.text, 4 * self.packing.pitch
        with text.loop("r", start, stop, GROUP):
            text.let("to_0", "target + r * 4")
            for i in range(GROUP):
                text.read(f"far{i}", f"row_step + min(r + {i}, rows - 1) * 8")
                text.let(f"row{i}", f"source + far{i}")
            tests = (f"far{i} == far0 + {i * self.width}" for i in range(1, GROUP))
            text.let("beside", f"1 if {' and '.join(tests)} else 0")
            with text.when("beside != 0"), text.loop("q", 0, "count"):
                text.read("far_q", "step + q * 8")
                self._store(self._load("row0 + far_q", 0, GROUP), f"to_0 + q * {pitch}", 0, GROUP)
            with text.when("beside == 0"), text.loop("t", 0, "count"):
                text.read("far_t", "step + t * 8")
                value = "poison"
                for i in range(GROUP):
                    one = text.new(f"load {self.source}, ptr {text.place(f'row{i} + far_t')}, align 1")
                    value = text.new(f"insertelement <{GROUP} x {self.source}> {value}, {self.source} {one}, i32 {i}")
                self._store(self._widen(value, GROUP), f"to_0 + t * {pitch}", 0, GROUP)

    def _define(self) -> str:
        text = self.text
        text.add("ret void")
        names = ("source", "row_step", "step", "rows", "count", "target")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _rows(self, step: str, depth: int) -> None:
        """Some steps of all panels: what is written to a panel fills lines of the cache."""
        text, packing = self.text, self.packing
        with text.loop(f"{step}j", 0, f"rows // {packing.panel}"):
            text.let(f"{step}_from", f"source + {step} * step + {step}j * {self.width * packing.panel}")
            text.let(f"{step}_to", f"target + {step} * {4 * packing.pitch} + {step}j * panel")
            for d in range(depth):
                if depth > 1:
                    text.fetch(text.place(f"{step}_from + {d + 2 * depth} * step"), near=2)
                for r, lanes in _pieces(packing.panel, packing.lanes):
                    found = self._load(f"{step}_from + {d} * step", self.width * r, lanes)
                    self._store(found, f"{step}_to", 4 * (packing.pitch * d + r), lanes)

    def _load(self, line: str, offset: int, lanes: int) -> str:
        place = self.text.place(f"{line} + {offset}")
        return self._widen(self.text.new(f"load <{lanes} x {self.source}>, ptr {place}, align 1"), lanes)

    def _widen(self, value: str, lanes: int) -> str:
        if self.source != "half":
            return value
        return self.text.new(f"fpext <{lanes} x half> {value} to <{lanes} x float>")

    def _store(self, value: str, line: str, offset: int, lanes: int) -> None:
        self.text.add(f"store <{lanes} x {self.target}> {value}, ptr {self.text.place(f'{line} + {offset}')}, align 4")

    def _transpose(self, rows: list[str]) -> list[str]:
        kind = f"<{GROUP} x {self.target}>"

        def pick(a: str, b: str, *lanes: int) -> str:
            mask = ", ".join(f"i32 {lane}" for lane in lanes)
            return self.text.new(f"shufflevector {kind} {a}, {kind} {b}, <{GROUP} x i32> <{mask}>")

        a, b, c, d = rows
        pairs = [pick(x, y, *lanes) for x, y in ((a, b), (c, d)) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7))]
        return [pick(pairs[i], pairs[i + 2], *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for i in (0, 1)]
