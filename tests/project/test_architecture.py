"""The architecture: imports point down the layers, `import anydml` is light, and what is public is named."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import anydml as dml
from cases import CASES

SOURCE = Path(dml.__file__).parent
# Each layer may import those before it, and itself.
LAYERS = [
    ["core"],
    ["arrays"],
    ["ir"],
    ["operators"],
    ["graph"],
    ["engines"],
    ["runtime"],
    ["api"],
    ["__init__"],
    ["explain", "pydirectml"],
    ["onnx"],
    ["onnxruntime"],
    ["dask"],
    ["dxdispatch"],
    ["models"],
    ["cli"],
    ["explore"],
    ["__main__"],
]
# What shows an object is a picture, which a layer above makes. Only these methods may reach up, when they are called,
# and only for that.
PICTURES = ("_repr_html_", "explain")
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}


def layer(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


@functools.cache
def imports(module: Path) -> set[str]:
    """The layers that a module imports when it runs; what is for type checkers alone does not count."""
    found = set()
    pending: list[ast.AST] = [ast.parse(module.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.FunctionDef) and node.name in PICTURES:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("anydml"):
            found.add([*node.module.split("."), "__init__"][1])
        pending += ast.iter_child_nodes(node)
    return found


def test_every_folder_of_modules_is_a_package() -> None:
    """One that is none is imported here, and left out of the wheel and of the site."""
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_imports_point_down() -> None:
    modules = list(SOURCE.rglob("*.py"))
    assert len(modules) > 20
    for module in modules:
        name = layer(module)
        above = {other for other in imports(module) if DEPTH[other] > DEPTH[name]}
        assert not above, f"{module.name} of {name} imports {above}"
        beside = {other for other in imports(module) if DEPTH[other] == DEPTH[name] and other != name}
        assert not beside, f"{module.name} of {name} imports {beside}"


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


def test_no_operator_knows_an_engine_and_no_engine_an_operator() -> None:
    for module in (SOURCE / "engines").rglob("*.py"):
        assert not imports(module) & {"operators", "runtime", "calls", "functions"}
    for module in (SOURCE / "operators").rglob("*.py"):
        assert not imports(module) & {"engines", "runtime", "calls", "functions"}


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
