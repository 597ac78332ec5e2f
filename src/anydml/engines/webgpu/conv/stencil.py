"""The depthwise and pooling stencil: folds over windows of a few taps, all written out.

An invocation has several results in a row, so that they share what they read.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from anydml.engines.webgpu.codegen.leaves import QUAD, LeafFolds, is_fused, outside_text, steps_along
from anydml.engines.webgpu.codegen.walks import compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import WGSL, Body, sum_of
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.rows.map import Aligned, write
from anydml.ir.expressions import Expr, maximum, minimum
from anydml.ir.loops import Loops, runs
from anydml.ir.row_passes import neutral

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.launch import Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Reduce

MOST_RESULTS = 4
"""Of an invocation."""
MOST_READS = 64
"""Taps of all results of an invocation: so long is the text."""


def plan_stencil(verb: Reduce, memory: Memory) -> Program | None:
    """For folds of numbers of at most 32 bits that do not depend on one another; None for others."""
    found = LeafFolds.of(verb)
    if found is None:
        return None
    wide = _Stencil(found, Body.on(memory.gpu), has_quads=True)
    kernel = wide.kernel()
    if not wide.is_wide:
        return KernelProgram.of(memory.name, kernel)

    def plain() -> Kernel:
        return _Stencil(found, Body.on(memory.gpu), has_quads=False).kernel()

    return KernelProgram.of(memory.name, Aligned(kernel, plain, ((wide.legal.writes[0].target.tensor, 0),)))


class _Stencil:
    def __init__(self, found: LeafFolds, body: Body, *, has_quads: bool) -> None:
        self.found, self.verb, self.leaves, self.body = found, found.verb, found.leaves, body
        self.legal, self.all, self.folds, self.loads = found.legal, found.all, found.folds, found.loads
        verb, self.kept = found.verb, found.kept
        sizes = verb.sizes
        target = verb.target.strides
        wide = sorted((k for k in range(self.kept) if sizes[k] > 1), key=lambda k: (-abs(target[k]), k))
        self.groups = runs(wide, sizes, found.moving())
        """The dimensions of results in runs that lie as one does, the fastest last."""
        self.taps = list(itertools.product(*map(range, sizes[self.kept :])))
        self.at, self.results = self._shared()
        """The run that an invocation's results follow one another along, and how many."""
        self.is_wide = has_quads and self._has_wide_target()
        """Whether an invocation's results are written at once."""
        self.written: list[str] = []
        self.read: dict[tuple[object, ...], str] = {}

    def _shared(self) -> tuple[int, int]:
        """The results whose windows have the most in common; of equals those that lie beside one another."""
        best = (float(len(self.taps) * len(self.leaves)), 0, 1)
        for at, run in reversed(list(enumerate(self.groups))):
            size = math.prod(self.verb.sizes[k] for k in run)
            counts = [n for n in (MOST_RESULTS, 2) if size % n == 0 and n * len(self.taps) <= MOST_READS]
            for count in counts[:1]:
                keys = {
                    self._key(k, at, n, tap) for k in range(len(self.leaves)) for n in range(count) for tap in self.taps
                }
                if len(keys) / count < best[0]:
                    best = (len(keys) / count, at, count)
        return best[1:]

    def _has_wide_target(self) -> bool:
        """Whether results lie beside one another, four words wherever they begin."""
        is_along = bool(self.groups) and self.at == len(self.groups) - 1 and self.results == QUAD
        if not is_along or len(self.legal.writes) != 1 or self.legal.insertions:
            return False
        target = self.legal.writes[0].target
        steps = [target.strides[run[-1]] for run in self.groups]
        return steps[-1] == 1 and not any(n % QUAD for n in (target.offset, *steps[:-1]))

    def _key(self, k: int, at: int, result: int, tap: Sequence[int]) -> tuple[int, ...]:
        """What is read at a result and a tap: equal keys are one element."""
        leaf, rank = self.leaves[k], len(self.verb.sizes)

        def far(strides: Sequence[int]) -> int:
            along = result * strides[self.groups[at][-1]] if self.groups else 0
            return along + sum(n * step for n, step in zip(tap, strides[self.kept :], strict=True))

        return (k, far(leaf.strides), *(far(steps_along(axis, rank)) for axis in leaf.limits))

    def kernel(self) -> Kernel:
        """An invocation for each group of results in a row."""
        body, groups, verb = self.body, self.groups, self.verb
        body.take(*self.all.values)
        sizes = [math.prod(verb.sizes[k] for k in run) for run in groups]
        if sizes:
            sizes[self.at] //= self.results
        count = math.prod(sizes)
        body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(count, 'count')}) {{ return; }}")
        names = take_apart(body, "i", Loops(tuple(sizes), (), ()), "c") if sizes else []
        if self.results > 1:
            body.say(f"let first = {names[self.at]} * {self.results}u;")
            names[self.at] = "first"
        for k, leaf in enumerate(self.leaves):
            body.say(f"let at{k} = {self._sum(names, leaf.strides, leaf.start, (k,))};")
            for m, axis in enumerate(leaf.limits):
                steps = steps_along(axis, len(verb.sizes))
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
        steps = [self._step(strides[self.groups[self.at][-1]], (*key, self.at))] if self.groups else []
        steps += [self._step(step, (*key, "tap", n)) for n, step in enumerate(strides[self.kept :])]
        counts = [result, *tap] if self.groups else list(tap)
        moving = [(f"{n}u", step) for n, step in zip(counts, steps, strict=True) if n]
        return sum_of(base, [n for n, _ in moving], [step for _, step in moving])

    def _element(self, k: int, result: int, tap: Sequence[int]) -> str:
        """The name of what a leaf reads at a result and a tap: the same for those that read the same."""
        body, leaf = self.body, self.leaves[k]
        key = self._key(k, self.at, result, tap)
        if key in self.read:
            return self.read[key]
        at = self._moved(f"at{k}", leaf.strides, result, tap, (k,))
        if not leaf.limits:
            self.read[key] = body.line(leaf.text(body, at))
            return self.read[key]
        tests = []
        for m, axis in enumerate(leaf.limits):
            steps = steps_along(axis, len(self.verb.sizes))
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
        if self.groups and result and self.groups[self.at][0] in own:
            own[self.groups[self.at][0]] = f"{names[self.at]} + {result}u"
        own |= {self.kept + n: f"{at}u" for n, at in enumerate(tap)}
        return {node: own.get(int(node.value), "0u") for node in self.all.coordinates}

    def _fold(self, result: int, names: Sequence[str]) -> None:
        """Fold the taps of a result."""
        body = self.body
        for number, fold in enumerate(self.folds):
            body.say(f"var a{result}_{number} = {WGSL.constant(neutral(fold))};")
        for tap in self.taps:
            with body.scope():
                for node, k in self.loads.items():
                    if node in self.found.folded:
                        body.names[node] = self._element(k, result, tap)
                held = {}
                for number, fold in enumerate(self.folds):
                    held[fold] = Expr("held", fold.type, (), number)
                    body.names[held[fold]] = f"a{result}_{number}"
                roots = [_folded(fold, held[fold]) for fold in self.folds]
                fused = list(map(is_fused, self.folds))
                parts = [root.args[1].args if one else (root,) for root, one in zip(roots, fused, strict=True)]
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
            nowhere = (0,) * self.verb.depth
            for node, k in self.loads.items():
                if node in self.found.after:
                    body.names[node] = self._element(k, result, nowhere)
            compute(body, values, self._texts(result, nowhere, names), ())
            along = list(names)
            if result:
                along[self.at] = f"({names[self.at]} + {result}u)"
            strides = tuple(tuple(view.strides[run[-1]] for run in self.groups) for view in self.all.targets)
            sizes = tuple(math.prod(self.verb.sizes[k] for k in run) for run in self.groups)
            loops = Loops(sizes, strides, tuple(view.offset for view in self.all.targets))
            found = places(body, loops, along, "to")
            if not self.is_wide:
                write(body, self.legal, found)
                return
            if not result:
                body.say(f"let to = {found[0]};")
            self.written.append(f"bitcast<u32>({body.names[self.legal.writes[0].value]})")
        if len(self.written) == QUAD:
            target = self.legal.writes[0].target
            name = body.tensor(target, "vec4<u32>")
            body.say(f"{name}[({body.base(name)} + to) / 4u] = vec4<u32>({', '.join(self.written)});")


def _folded(fold: Expr, held: Expr) -> Expr:
    """A partial result with one more element."""
    (one,) = fold.args
    if fold.op == "fold_sum":
        return held + one
    if fold.op == "fold_product":
        return held * one
    return maximum(held, one) if fold.op == "fold_max" else minimum(held, one)
