"""The depthwise and pooling stencil: folds over windows of a few taps, all written out.

An invocation has several results in a row, so that they share what they read.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.webgpu.codegen.walks import TYPES, Leaves, compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import WGSL, Body, sum_of
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.gemm.tile import Leaf, outside_text, own_views, take_leaves
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.rows.map import write
from anydml.ir.expressions import FOLDS, Expr, maximum, minimum
from anydml.ir.legalise import legalise
from anydml.ir.loops import Loops, runs
from anydml.ir.row_passes import levels_of, neutral
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.launch import Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Reduce
    from anydml.ir.windows import Axis

F16, F32 = DataType.FLOAT16, DataType.FLOAT32
MOST_RESULTS = 4
"""Of an invocation."""
MOST_READS = 64
"""Taps of all results of an invocation: so long is the text."""


def plan_stencil(verb: Reduce, memory: Memory) -> Program | None:
    """For folds of numbers of at most 32 bits that do not depend on one another; None for others."""
    verb = verb.computing(lambda value: rewrite(value, _widened))
    taken = take_leaves(verb.values, verb)
    if taken is None or max(levels_of(*verb.values).values(), default=0) != 1:
        return None
    kinds = {node.type for node in walk(*verb.values) if node.op in FOLDS}
    if any(kind is None or kind.size_in_bytes > WORD for kind in kinds):
        return None
    values, leaves = taken
    stencil = _Stencil(verb, values, leaves, Body.on(memory.gpu))
    return KernelProgram.of(memory.name, stencil.kernel()) if stencil.is_ours else None


def _widened(node: Expr) -> Expr:
    """The largest and the smallest of halves are those of their FLOAT32."""
    is_half = node.op in ("fold_max", "fold_min") and node.type is F16
    return Expr(node.op, F32, (node.args[0].to(F32),)).to(F16) if is_half else node


class _Stencil:
    def __init__(self, verb: Reduce, values: Sequence[Expr], leaves: tuple[Leaf, ...], body: Body) -> None:
        self.verb, self.leaves, self.body = verb, leaves, body
        own = own_views(leaves, verb.sizes)
        targets = zip(verb.targets, values, strict=True)
        first, *also = (Write(*pair) for pair in targets)
        whole = replace(verb, sources=own, value=first.value, also=tuple(also), rows=verb.rows)
        self.legal = legalise(whole, TYPES)
        self.all = Leaves.of(self.legal)
        nodes = list(walk(*self.all.values))
        self.folds = [node for node in nodes if node.op in FOLDS]
        self.is_ours = all(len(fold.args) == 1 for fold in self.folds) and not any(n.op == "fetch" for n in nodes)
        names = {view.tensor: k for k, view in enumerate(own)}
        self.loads = {n: names[self.legal.sources[int(n.value)].tensor] for n in nodes if n.op == "load"}
        sizes = verb.sizes
        self.kept = len(sizes) - verb.depth
        target = verb.target.strides
        wide = sorted((k for k in range(self.kept) if sizes[k] > 1), key=lambda k: (-abs(target[k]), k))
        self.groups = runs(wide, sizes, self._rows())
        """The dimensions of results in runs that lie as one does, the fastest last."""
        self.taps = list(itertools.product(*map(range, sizes[self.kept :])))
        last = math.prod(sizes[k] for k in self.groups[-1]) if self.groups else 1
        counts = [n for n in (MOST_RESULTS, 2, 1) if last % n == 0 and n * len(self.taps) <= MOST_READS]
        self.results = counts[0] if counts else 1
        self.read: dict[tuple[object, ...], str] = {}

    def _rows(self) -> list[Sequence[int]]:
        """All that moves along dimensions."""
        rank = len(self.verb.sizes)
        rows: list[Sequence[int]] = [view.strides for view in (*self.all.targets, *self.verb.targets)]
        rows += [leaf.strides for leaf in self.leaves]
        rows += [_steps(axis, rank) for leaf in self.leaves for axis in leaf.limits]
        return rows + [tuple(int(k == node.value) for k in range(rank)) for node in self.all.coordinates]

    def kernel(self) -> Kernel:
        """An invocation for each group of results in a row."""
        body, groups, verb = self.body, self.groups, self.verb
        body.take(*self.all.values)
        sizes = [math.prod(verb.sizes[k] for k in run) for run in groups]
        if sizes:
            sizes[-1] //= self.results
        count = math.prod(sizes)
        body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(count, 'count')}) {{ return; }}")
        names = take_apart(body, "i", Loops(tuple(sizes), (), ()), "c") if sizes else []
        if self.results > 1:
            body.say(f"let first = {names[-1]} * {self.results}u;")
            names[-1] = "first"
        for k, leaf in enumerate(self.leaves):
            body.say(f"let at{k} = {self._sum(names, leaf.strides, leaf.start, (k,))};")
            for m, axis in enumerate(leaf.limits):
                steps = _steps(axis, len(verb.sizes))
                body.say(f"let in{k}_{m} = {self._sum(names, steps, axis.first, (k, m))};")
        for result in range(self.results):
            self._fold(result, names)
        for result in range(self.results):
            self._finish(result, names)
        return body.kernel(-(-count // LANES))

    def _sum(self, names: Sequence[str], strides: Sequence[int], first: int, key: tuple[object, ...]) -> str:
        steps = [self._step(strides[run[-1]], (*key, n)) for n, run in enumerate(self.groups)]
        return sum_of(self.body.number(first, (*key, "first") if first else None), names, steps)

    def _step(self, step: int, key: tuple[object, ...]) -> str:
        return self.body.number(step, key if step not in (0, 1) else None)

    def _moved(
        self, base: str, strides: Sequence[int], result: int, tap: Sequence[int], key: tuple[object, ...]
    ) -> str:
        """An index at a result and a tap."""
        last = len(self.groups) - 1
        steps = [self._step(strides[self.groups[-1][-1]], (*key, last))] if self.groups else []
        steps += [self._step(step, (*key, "tap", n)) for n, step in enumerate(strides[self.kept :])]
        counts = [result, *tap] if self.groups else list(tap)
        moving = [(f"{n}u", step) for n, step in zip(counts, steps, strict=True) if n]
        return sum_of(base, [n for n, _ in moving], [step for _, step in moving])

    def _element(self, k: int, result: int, tap: Sequence[int]) -> str:
        """The name of what a leaf reads at a result and a tap: the same for those that read the same."""
        body, leaf = self.body, self.leaves[k]
        rank = len(self.verb.sizes)

        def far(strides: Sequence[int]) -> int:
            along = result * strides[self.groups[-1][-1]] if self.groups else 0
            return along + sum(n * step for n, step in zip(tap, strides[self.kept :], strict=True))

        rows = [_steps(axis, rank) for axis in leaf.limits]
        key = (k, far(leaf.strides), *map(far, rows))
        if key in self.read:
            return self.read[key]
        at = self._moved(f"at{k}", leaf.strides, result, tap, (k,))
        if not leaf.limits:
            self.read[key] = body.line(leaf.text(body, at))
            return self.read[key]
        tests = []
        for m, (axis, steps) in enumerate(zip(leaf.limits, rows, strict=True)):
            place = self._moved(f"in{k}_{m}", steps, result, tap, (k, m))
            tests.append(body.once(f"({place} < {body.number(axis.size, (k, m, 'size'))})"))
        name = self.read[key] = f"x{len(self.read)}"
        body.say(f"var {name} = {outside_text(body, leaf)};", f"if ({' && '.join(tests)}) {{")
        text = leaf.text(body, at)
        body.say(f"{name} = {text};", "}")
        return name

    def _texts(self, result: int, tap: Sequence[int], names: Sequence[str]) -> dict[Expr, str]:
        """Of coordinates."""
        own = {run[0]: name for run, name in zip(self.groups, names, strict=True) if len(run) == 1}
        if self.groups and result and self.groups[-1][0] in own:
            own[self.groups[-1][0]] = f"{names[-1]} + {result}u"
        own |= {self.kept + n: f"{at}u" for n, at in enumerate(tap)}
        return {node: own.get(int(node.value), "0u") for node in self.all.coordinates}

    def _fold(self, result: int, names: Sequence[str]) -> None:
        """Fold the taps of a result."""
        body = self.body
        for number, fold in enumerate(self.folds):
            body.say(f"var a{result}_{number} = {WGSL.constant(neutral(fold))};")
        for tap in self.taps:
            with body.scope():
                inside = set(walk(*(fold.args[0] for fold in self.folds)))
                for node, k in self.loads.items():
                    if node in inside:
                        body.names[node] = self._element(k, result, tap)
                held = {}
                for number, fold in enumerate(self.folds):
                    held[fold] = Expr("held", fold.type, (), number)
                    body.names[held[fold]] = f"a{result}_{number}"
                roots = [_folded(fold, held[fold]) for fold in self.folds]
                fused = [fold.op == "fold_sum" and fold.type is F32 and fold.args[0].op == "mul" for fold in self.folds]
                parts = [
                    root.args[1].args if is_fused else (root,) for root, is_fused in zip(roots, fused, strict=True)
                ]
                needed = [part for several in parts for part in several]
                body.take(*needed)
                compute(body, needed, self._texts(result, tap, names), ())
                for number, several in enumerate(parts):
                    texts = [body.names[part] for part in several]
                    held_in = f"a{result}_{number}"
                    body.say(f"{held_in} = {f'fma({texts[0]}, {texts[1]}, {held_in})' if fused[number] else texts[0]};")

    def _finish(self, result: int, names: Sequence[str]) -> None:
        """What follows the folds of a result, and its writes."""
        body, values = self.body, self.all.values
        with body.scope():
            for number, fold in enumerate(self.folds):
                body.names[fold] = f"a{result}_{number}"
            after = set(walk(*values, known=self.folds))
            nowhere = (0,) * self.verb.depth
            for node, k in self.loads.items():
                if node in after:
                    body.names[node] = self._element(k, result, nowhere)
            compute(body, values, self._texts(result, nowhere, names), ())
            along = [*names[:-1], f"({names[-1]} + {result}u)" if result else names[-1]] if names else []
            strides = tuple(tuple(view.strides[run[-1]] for run in self.groups) for view in self.all.targets)
            sizes = tuple(math.prod(self.verb.sizes[k] for k in run) for run in self.groups)
            loops = Loops(sizes, strides, tuple(view.offset for view in self.all.targets))
            write(body, self.legal, places(body, loops, along, "to"))


def _steps(axis: Axis, rank: int) -> tuple[int, ...]:
    return tuple(axis.steps.get(k, 0) for k in range(rank))


def _folded(fold: Expr, held: Expr) -> Expr:
    """A partial result with one more element."""
    (one,) = fold.args
    if fold.op == "fold_sum":
        return held + one
    if fold.op == "fold_product":
        return held * one
    return maximum(held, one) if fold.op == "fold_max" else minimum(held, one)
