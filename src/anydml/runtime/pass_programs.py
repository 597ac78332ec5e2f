"""The passes of a recipe, planned: several as one where an engine has a program for them, and of those that are alike
but for the names of their stores, one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.graph.recipe import Recipe, Step
from anydml.ir.substitution import Rebuilt
from anydml.ir.verbs import Joined, Map, Reduce, Repeat

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import TypeAlias

    from anydml.engines.common.engine import Engine
    from anydml.engines.common.program import Program
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

    Made: TypeAlias = dict[tuple[int, frozenset[str]], Program]
    """Programs by the id of a verb and those of its sources that are constants."""


def join_steps(engine: Engine, recipe: Recipe, constants: frozenset[str]) -> tuple[Recipe, dict[int, Program]]:
    """A recipe in which verbs that an engine has one program for are one step, and those programs by number.

    Asked for are the maps that write parts of a store, with the one reduce that reads it: padding, and what reads it.
    Maps alone are asked for where they are all that there is; in the midst of networks that was not measured.
    """
    writers, readers = dict[str, list[int]](), dict[str, list[int]]()
    for number, step in enumerate(recipe.steps):
        for views, known in ((step.targets, writers), (step.sources, readers)):
            for name in dict.fromkeys(view.tensor for view in views):
                known.setdefault(name, []).append(number)
    made: dict[int, tuple[Step, Program]] = {}
    gone: set[int] = set()
    for store, several in writers.items():
        steps = [recipe.steps[number] for number in several]
        if len(several) == 1 or not all(isinstance(step.primitive, Map) and not step.may_raise for step in steps):
            continue
        reading = readers.get(store, [])
        is_own = recipe.stores[store].kind == "scratch" and len(reading) == 1
        is_folded = is_own and isinstance(recipe.steps[reading[0]].primitive, Reduce)
        if is_folded:
            group = [*several, *reading]
        elif len(several) == len(recipe.steps):
            group = several
        else:
            continue
        verbs = [recipe.steps[number].primitive for number in group]
        program = None if gone.intersection(group) else engine.join(verbs, constants)
        if program is not None:
            nodes = tuple(dict.fromkeys(node for number in group for node in recipe.steps[number].nodes))
            made[group[-1]] = Step(Joined.of(verbs), nodes), program
            gone.update(group)
    if not made:
        return recipe, {}
    kept = [number for number in range(len(recipe.steps)) if number in made or number not in gone]
    joined = [made[number][0] if number in made else recipe.steps[number] for number in kept]
    used = {view.tensor for step in joined for view in (*step.sources, *step.targets)}
    stores = {name: store for name, store in recipe.stores.items() if store.kind != "scratch" or name in used}
    return Recipe(stores, tuple(joined)), {at: made[n][1] for at, n in enumerate(kept) if n in made}


def compile_steps(
    engine: Engine, recipe: Recipe, ready: Mapping[int, Program], constants: frozenset[str], made: Made | None = None
) -> list[Program]:
    """A program for each step that has none yet; the layers of a network are alike, and to plan one takes 20 times as
    long as to rename it. `made` are those made before, of verbs that are held meanwhile.
    """
    planned: dict[Hashable, tuple[Program, Rebuilt]] = {}
    back: dict[str, str] = {}

    def compile_one(primitive: Primitive) -> Program:
        # Programs may be more than data; checks and repeats have names of their own.
        if not engine.has_open_programs or primitive.checks or isinstance(primitive, Repeat):
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

    def find(primitive: Primitive) -> Program:
        if made is None:
            return compile_one(primitive)
        key = id(primitive), frozenset(view.tensor for view in primitive.sources if view.tensor in constants)
        if (found := made.get(key)) is None:
            found = made[key] = compile_one(primitive)
        return found

    return [ready.get(number) or find(step.primitive) for number, step in enumerate(recipe.steps)]
