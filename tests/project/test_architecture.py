"""The architecture: imports point down the layers, `import anydml` is light, and what is public is named."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anydml as dml
from cases import CASES
from scripts.pages import layers

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(dml.__file__).parent
LAYERS = [names for names, _ in layers.LAYERS]
"""Each layer may import those before it, and a package of it itself."""
PICTURES = ("_repr_html_", "explain")
"""What shows an object is a picture, which a layer above makes: only these methods may reach up for it."""
NAMED_AHEAD = {
    "__init__.py": {
        "dask",
        "dxdispatch",
        "genai",
        "models",
        "onnx",
        "onnxruntime",
        "pydirectml",
    },  # attributes of the package
    "api/calls.py": {"dask"},  # whoever has an array of dask has dask
    "runtime/graph.py": {"dask"},
    "cli/app.py": {"explore"},  # commands
    **{f"onnx/{old}.py": {"onnxruntime"} for old in ("__init__", "__main__", "capi", "session")},
}
"""The layers above that a module names in a string, to import them when they are first asked for."""
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}


def layer(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def layer_of(name: str) -> str:
    return [*name.split("."), "__init__"][1]


def is_module(text: object) -> bool:
    """Whether a string names a module of ours, or is the beginning of such names."""
    if not isinstance(text, str) or not re.fullmatch(r"anydml(\.\w+)+\.?", text):
        return False
    path = SOURCE.parent.joinpath(*text.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@functools.cache
def imports(module: Path) -> tuple[set[str], set[str]]:
    """The layers that a module imports when it runs, and those of the modules whose names stand in its strings.

    What is for type checkers alone does not count.
    """
    imported, named = set(), set()
    pending: list[ast.AST] = [ast.parse(module.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.FunctionDef) and node.name in PICTURES:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "anydml":
            imported |= {name.name if name.name in DEPTH else "__init__" for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("anydml."):
            imported.add(layer_of(node.module))
        elif isinstance(node, ast.Import):
            imported |= {layer_of(name.name) for name in node.names if name.name.split(".")[0] == "anydml"}
        elif isinstance(node, ast.Constant) and is_module(node.value):
            named.add(layer_of(str(node.value)))
        elif isinstance(node, ast.Constant) and module.parent == SOURCE and node.value in DEPTH:
            named.add(str(node.value))
        pending += ast.iter_child_nodes(node)
    return imported, named


def test_every_folder_of_modules_is_a_package() -> None:
    """One that is none is imported here, and left out of the wheel and of the site."""
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_there_are_few_layers_and_every_module_is_in_one() -> None:
    assert len(LAYERS) <= 12
    assert {layer(module) for module in SOURCE.rglob("*.py")} == DEPTH.keys()


def test_imports_point_down() -> None:
    ahead: dict[str, set[str]] = {}
    for module in SOURCE.rglob("*.py"):
        own = layer(module)
        imported, named = ({name for name in names if DEPTH[name] >= DEPTH[own]} - {own} for names in imports(module))
        assert not imported, f"{module.name} of {own} imports {imported}"
        if named:
            ahead[module.relative_to(SOURCE).as_posix()] = named
    assert ahead == NAMED_AHEAD


def test_the_drawing_has_the_layers() -> None:
    assert layers.draw_layers() in layers.PAGE.read_text(), "write it anew with `make written`"


def test_only_pictures_reach_up() -> None:
    reached = set()
    for module in SOURCE.rglob("*.py"):
        if layer(module) == "explain":
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name in PICTURES:
                inner = [n.module for n in ast.walk(node) if isinstance(n, ast.ImportFrom)]
                reached |= {(layer(module), name) for name in inner}
    assert reached == {(name, "anydml.explain") for name in ("graph", "operators", "runtime")}


def test_every_operator_has_cases() -> None:
    assert {case.operator for case in CASES} == set(dml.OPERATORS.values())


def test_what_is_public_is_named_and_has_a_docstring() -> None:
    pytest.importorskip("onnx", reason="anydml.onnx needs it")
    public = {name for name in dir(dml) if not name.startswith("_")} - {"annotations"}
    modules = {name for name in public if isinstance(getattr(dml, name), type(sys))}
    assert public - modules == set(dml.__all__)
    for name in dml.__all__:
        assert getattr(dml, name).__doc__, name


def test_import_loads_no_optional_dependency_and_is_quick() -> None:
    optional = ["torch", "llvmlite", "triton", "onnx", "cupy", "jax", "rich", "click", "PIL", "dask", "ctypes.util"]
    code = f"import sys, anydml; print([m for m in {optional!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert found.stdout == "[]\n"


CACHES = {"CallCache", "NamedCalls", "PlanCache", "Replans", "lru_cache", "cached", "OrderedDict"}
CACHES |= {"WeakValueDictionary", "WeakKeyDictionary"}
CONTRACTS = {"core/guards.py", "runtime/call_cache.py", "runtime/plan_cache.py", "runtime/replanning.py"}
"""The files that have what caches are made of."""


def name_of(node: ast.AST) -> str:
    """The last name of an expression: `lru_cache` of `functools.lru_cache(maxsize=512)`, `x` of `self.x`."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return str(getattr(node, "attr", getattr(node, "id", "")))


def caches_in(tree: ast.Module) -> Iterator[str]:
    """The names of caches that a module makes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            above = node.decorator_list if isinstance(node, ast.FunctionDef) else node.bases
            if CACHES & {*map(name_of, above)}:
                yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            if CACHES & {name_of(call) for call in ast.walk(node.value) if isinstance(call, ast.Call)}:
                yield name_of(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        elif isinstance(node, ast.Call) and name_of(node) == "own_cache":  # of which a tape has one in its place
            (cache,) = node.args
            if isinstance(cache, ast.Name) or ast.unparse(cache).startswith("self."):
                yield name_of(cache)


def test_the_page_names_every_cache() -> None:
    """Of a call's way to a kernel; what `functools.cache` keeps for ever is as much as there are classes and types."""
    page = layers.PAGE.read_text().partition("\n## Caches\n")[2].partition("\n## ")[0]
    told = {
        (file, name)
        for file, names in re.findall(r"`([\w/]+\.py)`((?:,?\s+`\w+`)+)", page)
        for name in re.findall(r"\w+", names)
    }
    made = {
        (str(module.relative_to(SOURCE)), name)
        for module in SOURCE.rglob("*.py")
        if str(module.relative_to(SOURCE)) not in CONTRACTS
        for name in caches_in(ast.parse(module.read_text()))
    }
    assert not sorted(made - told), "docs/architecture.md, Caches, does not name them"
    gone = {(file, name) for file, name in told if name not in (SOURCE / file).read_text()}
    assert not gone, "docs/architecture.md, Caches, names what is gone"


def test_the_page_leads_to_what_is_there() -> None:
    """Each file of the table of ideas is one of the engine's or of the package's, and has the names beside it."""
    table = layers.PAGE.read_text().partition("\nWhere an idea is:\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[2:4] for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for cells in rows:
        for cell, engine in zip(cells, ("cpu", "cuda"), strict=True):
            words = re.findall(r"`([\w/]+(?:\.py)?)`", cell)
            files = [word for word in words if word.endswith(".py")]
            paths = [path if (path := SOURCE / "engines" / engine / file).exists() else SOURCE / file for file in files]
            text = "".join(path.read_text() for path in paths)
            assert not [word for word in words if re.fullmatch(r"\w+", word) and word not in text], cell
