"""The kernel cache: it runs nothing that others can have written, keeps only what it can, and compiles once."""

from __future__ import annotations

import ast
import ctypes
import functools
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anydml.engines.common import cache
from anydml.engines.cpu import build, features, objects
from anydml.engines.cpu.move.copy import get_copy, make_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME, OTHER = "copy run 4", "copy run 8"
WIDTHS = {NAME: 4, OTHER: 8}
NOBODY = 65534
posix = pytest.mark.skipif(os.name != "posix", reason="Windows has neither owners nor modes")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(scope="module")
def codes() -> dict[str, bytes]:
    return {
        name: build._compile(name, functools.partial(make_copy, width, "run", False, False))
        for name, width in WIDTHS.items()
    }


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, codes: dict[str, bytes], folder: Path) -> Iterator[list[str]]:
    """The kernels that were compiled, in order."""
    names: list[str] = []

    def compile_it(name: str, _write: object) -> bytes:
        names.append(name)
        return codes[name]

    build.version()  # which is kept as well, elsewhere
    monkeypatch.setattr(build, "_compile", compile_it)
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(folder))
    monkeypatch.setattr(cache, "_said", set())
    cache._prepare.cache_clear()
    yield names
    cache._prepare.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "above" / "kernels"


@pytest.fixture
def get(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Get a kernel as a new process would."""

    def get(name: str = NAME) -> Any:
        monkeypatch.setattr(build, "_kernels", {})
        cache._prepare.cache_clear()
        return get_copy(name)

    return get


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    if os.name == "posix":
        signal.alarm(120)
    yield
    if os.name == "posix":
        signal.alarm(0)


def entry_of(folder: Path, name: str = NAME) -> Path:
    (path,) = folder.glob(f"{name.replace(' ', '-')}-*.o")
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_kernel_is_compiled_once_and_kept_for_this_user_alone(made: list[str], get: Any, folder: Path) -> None:
    before = os.umask(0o002) if os.name == "posix" else 0
    try:
        get()
    finally:
        os.umask(before)
    get()
    assert made == [NAME]
    assert sorted(path.name for path in folder.iterdir()) == [".lock", entry_of(folder).name]
    if os.name == "posix":
        assert (mode_of(folder), mode_of(folder.parent)) == (0o700, 0o700)
        assert {mode_of(path) for path in folder.iterdir()} == {0o600}


# Entries


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-50] ^= 1
    path.write_bytes(data)


def _copy_other(path: Path) -> None:
    shutil.copyfile(entry_of(path.parent, OTHER), path)


def _link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _device(path: Path) -> None:
    path.unlink()
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    except PermissionError as error:
        pytest.skip(f"no device can be made here: {error}")


def _grow(path: Path) -> None:
    os.truncate(path, 2**34)


def _share(path: Path) -> None:
    path.chmod(0o660)


def _give_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize(
    "spoil",
    [
        _truncate,
        _flip,
        _copy_other,
        _folder,
        _grow,
        pytest.param(_link, marks=posix),
        pytest.param(_fifo, marks=posix),
        pytest.param(_share, marks=posix),
        pytest.param(_device, marks=as_root),
        pytest.param(_give_away, marks=as_root),
    ],
)
def test_an_entry_that_is_not_this_kernels_own_is_passed_over(
    spoil: Callable[[Path], None], made: list[str], get: Any, folder: Path
) -> None:
    get(), get(OTHER)
    path = entry_of(folder)
    spoil(path)
    assert get().name == NAME
    assert made == [NAME, OTHER, NAME]
    if not path.is_dir():
        assert path.is_file()
        assert not path.is_symlink()
        get()
        assert made == [NAME, OTHER, NAME]


# Folders


def _open_to_group(folder: Path) -> str:
    folder.chmod(0o770)
    return f"others can write to {folder} (chmod go-w '{folder}')"


def _open_to_all(folder: Path) -> str:
    folder.chmod(0o1777)
    return f"others can write to {folder}"


def _open_above(folder: Path) -> str:
    folder.parent.chmod(0o707)
    return f"others can write to {folder.parent}"


def _owned_by_another(folder: Path) -> str:
    os.chown(folder, NOBODY, NOBODY)
    return f"{folder} belongs to another user (uid {NOBODY})"


def _below_another(folder: Path) -> str:
    os.chown(folder.parent, NOBODY, NOBODY)
    return f"{folder.parent} belongs to another user"


def _file(folder: Path) -> str:
    shutil.rmtree(folder)
    folder.write_text("in the way")
    return f"{folder} is not a folder"


def _below_a_file(folder: Path) -> str:
    shutil.rmtree(folder.parent)
    folder.parent.write_text("in the way")
    return f"{folder.parent} is not a folder"


@pytest.mark.parametrize(
    "open_up",
    [
        _file,
        _below_a_file,
        pytest.param(_open_to_group, marks=posix),
        pytest.param(_open_to_all, marks=posix),
        pytest.param(_open_above, marks=posix),
        pytest.param(_owned_by_another, marks=as_root),
        pytest.param(_below_another, marks=as_root),
    ],
)
def test_a_folder_that_others_can_write_to_is_refused(
    open_up: Callable[[Path], str], made: list[str], get: Any, folder: Path, caplog: Any
) -> None:
    """What lies there is not run, nothing is written there, and one remark says why."""
    get()
    why = open_up(folder)
    get(), get(), get(OTHER)
    assert made == [NAME, NAME, NAME, OTHER]
    assert not list(folder.glob("line-move-8*"))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("anydml", "WARNING")
    assert record.getMessage().startswith(f"compiled kernels are not kept: {why}")
    assert "set ANYDML_CACHE_DIR" in record.getMessage()


@posix
def test_a_link_to_the_folder_is_followed_once(made: list[str], get: Any, folder: Path, caplog: Any) -> None:
    folder.parent.mkdir()
    there = folder.parent / "there"
    folder.symlink_to(there)
    get(), get()
    assert made == [NAME]
    assert entry_of(there).is_file()
    there.chmod(0o777)
    get()
    assert made == [NAME, NAME]
    assert f"others can write to {there}" in caplog.text


def test_the_folder_is_the_users_choice(
    made: list[str], get: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("LOCALAPPDATA", str(home / "local"))
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.chdir(home)
    for given, there in (("~/mine", "mine"), ("beside", "beside"), ("./a/../b", "b")):
        monkeypatch.setenv("ANYDML_CACHE_DIR", given)
        get()
        assert entry_of(home / there).is_file()
    monkeypatch.setenv("ANYDML_CACHE_DIR", "")
    get()
    standard = {"darwin": "Library/Caches", "win32": "local"}.get(sys.platform, ".cache")
    assert entry_of(home / standard / "anydml").is_file()
    assert len(made) == 4


@posix
def test_without_a_home_kernels_are_compiled_in_memory(
    made: list[str], get: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capsys: Any
) -> None:
    import pwd

    def find(_who: Any) -> Any:
        raise KeyError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pwd, "getpwuid", find)
    for variable in ("HOME", "XDG_CACHE_HOME", "ANYDML_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    get(), get()
    assert made == [NAME, NAME]
    assert caplog.text == capsys.readouterr().err == ""
    monkeypatch.setenv("ANYDML_CACHE_DIR", "~no-such-user/kernels")
    get()
    assert "ANYDML_CACHE_DIR is '~no-such-user/kernels', and no such home is known" in caplog.text
    assert not list(tmp_path.iterdir())


def test_kernels_are_loaded_as_llvm_loads_them(codes: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that calls and that has constants, stubs and memory of its own; what is odd is left to LLVM."""
    text = """@state = global i64 40
@held = global [9 x i64] zeroinitializer
declare ptr @memcpy(ptr, ptr, i64)
define i64 @kernel(ptr %to, ptr %from, i64 %size) {
  %unused = call ptr @memcpy(ptr %to, ptr %from, i64 %size)
  %old = load i64, ptr @state
  %new = add i64 %old, 1
  store i64 %new, ptr @state
  %place = getelementptr [9 x i64], ptr @held, i64 0, i64 %size
  store i64 %new, ptr %place
  %sum = call i64 @other(i64 %new)
  ret i64 %sum
}
define i64 @other(i64 %a) noinline {
  %v = insertelement <4 x i64> poison, i64 %a, i64 0
  %s = shufflevector <4 x i64> %v, <4 x i64> poison, <4 x i32> zeroinitializer
  %w = mul <4 x i64> %s, <i64 1, i64 20, i64 300, i64 4000>
  %t = call i64 @llvm.vector.reduce.add.v4i64(<4 x i64> %w)
  ret i64 %t
}
declare i64 @llvm.vector.reduce.add.v4i64(<4 x i64>)
"""
    code = features.make_machine().emit_object(features.load_llvm().parse_assembly(text))
    loads = [build._by_llvm(code)]
    if sys.platform.startswith("linux") and platform.machine() in ("x86_64", "aarch64"):
        symbols = objects.load_object(code)
        assert symbols is not None
        assert symbols.keys() >= {"kernel", "other", "state", "held"}
        assert all(objects.load_object(one) is not None for one in codes.values())
        loads.append(symbols.__getitem__)
    for find in loads:
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)(find("kernel"))
        memory = ctypes.create_string_buffer(b"....")
        assert [call(memory, b"abcd", 3), call(memory, b"abcd", 3)] == [41 * 4321, 42 * 4321]
        assert memory.raw == b"abc.\0"
        assert ctypes.c_int64.from_address(find("state")).value == 42
        assert ctypes.c_int64.from_address(find("held") + 24).value == 42
    assert objects.load_object(code[:18] + b"\x08\0" + code[20:]) is None  # another CPU's
    assert objects.load_object(code[:600]) is None
    assert objects.load_object(b"MZ") is None
    monkeypatch.setattr(objects, "_CALLED", ())
    objects._system.cache_clear()
    assert objects.load_object(code) is None  # it calls what is not there
    objects._system.cache_clear()


# The version: what a kernel is made of


ROOT = Path(cache.__file__).parents[2]


@functools.cache
def package() -> dict[str, bytes]:
    found = [path for path in ROOT.rglob("*") if path.suffix in (".py", ".json")]
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in found}


def imported_by(*names: str) -> set[str]:
    """The files of modules, and of all that they import, whenever that is, as Python's own parser finds them."""
    found, pending = set[str](), list(names)
    while pending:
        name = pending.pop()
        folder = name.removeprefix("anydml").strip(".").replace(".", "/")
        path = next((one for one in (f"{folder}.py", f"{folder}/__init__.py") if one in package()), "")
        if not folder or not path or path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(package()[path])):
            if isinstance(node, ast.ImportFrom) and node.module:
                pending += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            elif isinstance(node, ast.Import):
                pending += [one.name for one in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("anydml."):
                pending.append(node.value)
    return found


def test_the_version_covers_all_that_the_engine_imports() -> None:
    engine = ["anydml." + path[:-3].replace("/", ".") for path in package() if path.startswith("engines/cpu/")]
    made_of = imported_by(*(name.removesuffix(".__init__") for name in engine))
    assert {"ir/numerics/__init__.py", "ir/blocked_weights.py", "core/enums.py", "engines/cpu/features.py"} < made_of
    folders = {path.rpartition("/")[0] for path in made_of}
    tables = {path for path in package() if path.endswith(".json") and path.rpartition("/")[0] in folders}
    assert "ir/numerics/coefficients.json" in tables
    covered = cache.reached_by("engines", package())
    assert made_of | tables <= covered.keys()
    assert not {"cli/app.py", "onnx/model.py", "__init__.py"} & covered.keys()


def test_an_edit_changes_the_version_of_what_it_reaches() -> None:
    files = {
        "engines/a.py": b"from anydml.ir.b import c",
        "ir/b.py": b"1",
        "ir/c.json": b"2",
        "x.py": b"3",
        "y.py": b"4",
    }
    files["ir/d.py"] = b"from anydml import x"
    whole = cache.SourceDigests.of(files)
    assert cache.SourceDigests.of(dict(reversed(files.items()))) == whole
    for path in files:
        edited = cache.SourceDigests.of({**files, path: files[path] + b"#"})
        assert edited.package != whole.package
        assert (edited.kernels == whole.kernels) == (path == "y.py")


@pytest.mark.long
@posix
def test_a_kernel_of_other_source_is_compiled_anew(tmp_path: Path) -> None:
    """Copies of the package share a cache: as they are, and with another constant in a polynomial."""
    code = """
import numpy as np, anydml as dml
x = np.linspace(-1, 1, 64 * 64, dtype="f4").reshape(1, 64, 64)
print(hash(dml.multihead_attention(x, x, x, scale=0.5, head_count=2).output.tobytes()), dml.__file__)
"""

    def run(package: Path) -> str:
        environment = {**os.environ, "PYTHONPATH": str(package.parent), "ANYDML_CACHE_DIR": str(tmp_path / "cache")}
        environment["PYTHONHASHSEED"] = "0"
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own
        found, file = done.stdout.split()
        assert Path(file).parent == package
        return found

    def kernels() -> set[str]:
        return {
            path.name for path in (tmp_path / "cache").glob("*.o") if not path.name.startswith(("version-", "cpu-"))
        }

    first_copy, second_copy = copies = [tmp_path / name / "anydml" for name in ("first", "second")]
    for copied in copies:
        shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns("__pycache__", "static", "cli", "explain", "onnx"))
    before, made = run(first_copy), kernels()
    assert made
    assert run(second_copy) == before
    assert kernels() == made
    table = second_copy / "ir" / "numerics" / "coefficients.json"
    text, status = table.read_text(encoding="utf-8"), table.stat()
    table.write_text(text.replace("0.1666666567325592", "0.2666666567325592", 1), encoding="utf-8")
    os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns))  # of the same size and time
    assert run(second_copy) != before
    table.write_text(text, encoding="utf-8")
    assert run(second_copy) == before
