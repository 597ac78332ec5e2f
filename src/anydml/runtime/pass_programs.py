"""The passes of a recipe, planned: of those that are alike but for the names of their stores, one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.ir.verbs import Repeat
from anydml.rebuilding import Rebuilt

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from anydml.engines.common.engine import Engine
    from anydml.engines.common.program import Program
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View


def compile_steps(engine: Engine, primitives: Sequence[Primitive], constants: frozenset[str]) -> list[Program]:
    """A program for each; the layers of a network are alike, and to plan one takes 20 times as long as to rename it."""
    if engine.plans is None:  # whose programs are more than data
        return [engine.compile(primitive, constants) for primitive in primitives]
    planned: dict[Hashable, tuple[Program, Rebuilt]] = {}
    back: dict[str, str] = {}

    def compile_one(primitive: Primitive) -> Program:
        if primitive.checks or isinstance(primitive, Repeat):  # which have names of their own
            return engine.compile(primitive, constants)
        names: dict[str, str] = {}

        def plain(view: View) -> View:
            return view.named(names.setdefault(view.tensor, f"\0{len(names)}"))

        alike = primitive.reading(plain).writing(plain)
        known = frozenset(names[name] for name in constants & names.keys())
        if (found := planned.get((alike, known))) is None:
            rename = Rebuilt({str: lambda text: back.get(text, text)})
            found = planned[alike, known] = (engine.compile(alike, known), rename)
        back.clear()
        back.update({alias: name for name, alias in names.items()})
        program, rename = found
        renamed: Program = rename(program)
        return renamed

    return list(map(compile_one, primitives))
