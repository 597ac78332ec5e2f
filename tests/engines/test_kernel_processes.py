"""The kernel cache between processes: each kernel is compiled once, and nobody waits for a dead one."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from anydml.engines.common import cache

pytestmark = pytest.mark.sampled(4)

posix = pytest.mark.skipif(os.name != "posix", reason="Windows has neither users, limits nor these locks")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user")
TIMEOUT = 300
SUM = "import numpy as np, anydml as dml; print(dml.cumulative_summation(np.ones((3, 2000, 200), 'f4'), 1)[:, -1, 0])"
SUMS = "[2000. 2000. 2000.]"

# A compilation says when it begins, and lasts until SECONDS have passed or the file UNTIL is there.
SLOW = """
import os, sys, time
from pathlib import Path
from anydml.engines.common import cache
from anydml.engines.cpu import build
compile_it, until = build._compile, Path(os.environ.get("UNTIL", "none"))
def compile_slowly(name, write):
    print("compiling", name, flush=True)
    deadline = time.monotonic() + float(os.environ["SECONDS"])
    while time.monotonic() < deadline and not until.exists():
        time.sleep(0.01)
    return compile_it(name, write)
build._compile = compile_slowly
"""
SHOW = "from anydml.engines.cpu.move.copy import get_copy; print(get_copy(sys.argv[1]).name)"
GET = SLOW + SHOW
LOGGED = "import logging; logging.basicConfig(level='INFO', format='%(name)s %(levelname)s %(message)s')\n"


def start(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command, env = [sys.executable, "-c", code, *arguments], {**os.environ, **environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)  # noqa: S603 - a Python of ours


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, err
    return out.strip(), err


def run(code: str, *arguments: str, **environment: str) -> tuple[str, str]:
    return finish(start(code, *arguments, **environment))


def test_a_warm_process_loads_no_llvm(tmp_path: Path) -> None:
    run(SUM, ANYDML_CACHE_DIR=str(tmp_path))
    asked = "; import sys; print('llvmlite.binding' in sys.modules)"
    warm = run(SUM + asked, ANYDML_CACHE_DIR=str(tmp_path))
    assert warm == (f"{SUMS}\nFalse", "")


def test_a_compilation_is_logged_with_where_the_kernel_is_kept(tmp_path: Path) -> None:
    once = r"anydml INFO compiled the kernel 'copy run 4' for this CPU in \d+\.\d\d s"
    folder = tmp_path / "a"
    _, said = run(LOGGED + GET, "copy run 4", SECONDS="0", ANYDML_CACHE_DIR=str(folder))
    assert re.fullmatch(rf"{once}, once; it is kept in {re.escape(str(folder))}\n", said)
    assert run(LOGGED + GET, "copy run 4", SECONDS="0", ANYDML_CACHE_DIR=str(folder)) == ("copy run 4", "")
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    _, said = run(LOGGED + GET, "copy run 4", SECONDS="0", ANYDML_CACHE_DIR=str(blocked / "folder"))
    refusal, note = said.splitlines()
    assert f"{blocked} is not a folder" in refusal
    assert re.fullmatch(once, note)


def test_a_long_compilation_says_nothing_to_a_pipe(tmp_path: Path) -> None:
    assert run(GET, "copy run 4", SECONDS="1.5", ANYDML_CACHE_DIR=str(tmp_path))[1] == ""


@pytest.mark.long
@posix
@pytest.mark.parametrize(
    ("begin", "shown"),
    [
        ("", "\r{}\r{}\r"),
        ("import logging; logging.getLogger('anydml').setLevel('ERROR')\n", ""),
        ("import sys, io; sys.stderr = io.StringIO()\n", ""),  # as a notebook has it
        ("import sys; sys.stderr = None\n", ""),
    ],
    ids=["as it is", "told not to", "a notebook", "no stderr"],
)
def test_on_a_terminal_a_long_compilation_is_one_line_that_goes_again(begin: str, shown: str, tmp_path: Path) -> None:
    import pty

    here, there = pty.openpty()
    env = {**os.environ, "SECONDS": "2.5", "ANYDML_CACHE_DIR": str(tmp_path), "COLUMNS": "40"}
    command = [sys.executable, "-c", begin + GET, "copy run 4"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=there, check=False, env=env, timeout=TIMEOUT)  # noqa: S603 - a Python of ours
    os.close(there)
    said = b""
    with contextlib.suppress(OSError):  # where there is nothing to read
        said = os.read(here, 10_000)
    os.close(here)
    assert done.stdout.decode().endswith("copy run 4\n")
    assert said.decode() == shown.format("anydml: compiling the kernel 'copy run ", " " * 39)


def test_a_process_that_compiles_nothing_does_not_load_llvm(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, anydml as dml\nprint(dml.add(np.ones(3, 'f4'), 1), 'llvmlite.binding' in sys.modules)"
    )
    known = sys.platform.startswith("linux") and platform.machine() in ("x86_64", "aarch64")
    first, second = (run(code, ANYDML_CACHE_DIR=str(tmp_path))[0] for _ in range(2))
    assert (first, second) == ("[2. 2. 2.] True", f"[2. 2. 2.] {not known}")


def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    group = [start(GET, "copy run 4", SECONDS="1", ANYDML_CACHE_DIR=str(tmp_path / "new")) for _ in range(4)]
    outputs = [finish(process)[0] for process in group]
    assert sorted(outputs) == ["compiling copy run 4\ncopy run 4", *["copy run 4"] * 3]


# More kernels than one, of several families, and the team of threads.
SEVERAL = """
import numpy as np, anydml as dml
x = np.arange(2**19, dtype="f4").reshape(512, 1024)
print(sum(float(y[-1, -1]) for y in (dml.cumulative_summation(x, 0), dml.cumulative_product(x, 1), dml.negate(x))))
"""


@pytest.mark.long
def test_eight_processes_compile_each_kernel_once(tmp_path: Path) -> None:
    group = [start(LOGGED + SEVERAL, ANYDML_CACHE_DIR=str(tmp_path / "new")) for _ in range(8)]
    found = [finish(process) for process in group]
    assert len({out for out, _ in found}) == 1
    compiled = [name for _, said in found for name in re.findall(r"compiled the kernel '(.+)' for", said)]
    assert len(compiled) >= 4
    assert sorted(compiled) == sorted(set(compiled))


def test_different_kernels_are_compiled_at_the_same_time(tmp_path: Path) -> None:
    """Each waits until the other has begun."""
    begun = "Path(os.environ['BEGUN']).touch()\n"
    code = SLOW.replace("    deadline", f"    {begun}    deadline", 1) + "cache.PATIENCE = 600\n" + SHOW
    a, b, cache = (str(tmp_path / name) for name in ("a", "b", "cache"))
    first = start(code, "copy run 4", SECONDS="600", BEGUN=a, UNTIL=b, ANYDML_CACHE_DIR=cache)
    second = start(code, "copy run 8", SECONDS="600", BEGUN=b, UNTIL=a, ANYDML_CACHE_DIR=cache)
    assert [finish(p)[0].splitlines()[-1] for p in (first, second)] == ["copy run 4", "copy run 8"]


def test_a_killed_process_holds_no_kernel(tmp_path: Path) -> None:
    stuck = start(GET, "copy run 4", SECONDS="600", ANYDML_CACHE_DIR=str(tmp_path))
    assert stuck.stdout is not None
    assert stuck.stdout.readline() == "compiling copy run 4\n"
    waiting = start(SLOW + "cache.PATIENCE = 600\n" + SHOW, "copy run 4", SECONDS="0", ANYDML_CACHE_DIR=str(tmp_path))
    time.sleep(0.5)
    stuck.kill()
    stuck.communicate()
    assert finish(waiting)[0] == "compiling copy run 4\ncopy run 4"


def test_a_process_that_never_ends_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    stuck = start(GET, "copy run 4", SECONDS="600", ANYDML_CACHE_DIR=str(tmp_path))
    assert stuck.stdout is not None
    stuck.stdout.readline()
    code = SLOW + "cache.PATIENCE = 0.2\n" + SHOW
    try:
        assert run(code, "copy run 4", SECONDS="0", ANYDML_CACHE_DIR=str(tmp_path))[0].endswith("copy run 4")
        assert run(code, "copy run 4", SECONDS="0", ANYDML_CACHE_DIR=str(tmp_path))[0] == "copy run 4"
    finally:
        stuck.kill()
        stuck.communicate()


def claim_and_keep(folder: Path) -> None:
    entry = cache.Entry("name", "version", "cpu")
    with entry.claim() as place:
        assert place == folder
        entry.write(b"code")
    assert entry.read() == b"code"


@posix
@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_kernels_are_kept_all_the_same(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def fail(*_: Any) -> None:
        raise OSError(error, "no locks")

    monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(fcntl, "lockf", fail)
    claim_and_keep(tmp_path)


@posix
@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_a_lock_file_that_is_none_is_left_alone(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, aim = tmp_path / "kernels", tmp_path / "aim"
    folder.mkdir(mode=0o700)
    lock = folder / ".lock"
    if kind == "link":
        lock.symlink_to(aim)
    elif kind == "fifo":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(folder))
    claim_and_keep(folder)
    assert not aim.exists()


@posix
def test_a_sticky_folder_above_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path / "kernels"))
    claim_and_keep(tmp_path / "kernels")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists a process's descriptors there")
def test_no_descriptor_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path))
    claim_and_keep(tmp_path)
    there = Path("/proc/self/fd")
    before = set(there.iterdir())
    for _ in range(3):
        claim_and_keep(tmp_path)
    assert set(there.iterdir()) == before


# Another user may not be able to read this one's Python: everything is loaded before.
ANSWERS = """
import logging, numpy as np, anydml as dml
from anydml.engines.cpu import build
from anydml.engines.cpu.move.scan import make_lines
build._compile("scan lines f32 sum", lambda: make_lines("f32", "sum", False, False))
import anydml.engines.cpu.schedules  # the user that this becomes may not read it
logging.basicConfig(level="INFO")
BECOME
print(dml.cumulative_summation(np.ones((3, 2000, 200), 'f4'), 1)[:, -1, 0])
"""


@posix
@pytest.mark.parametrize(
    ("become", "variables"),
    [
        pytest.param("import os; os.setgid(54321); os.setuid(54321)", {}, id="an unknown user", marks=as_root),
        pytest.param("import os; os.setuid(65534)", {"HOME": "/nonexistent"}, id="no home", marks=as_root),
        pytest.param("import os; os.setuid(65534)", {"ANYDML_CACHE_DIR": "FOLDER"}, id="read-only", marks=as_root),
        pytest.param(
            "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
            {"ANYDML_CACHE_DIR": "FOLDER"},
            id="a full disk",
        ),
        pytest.param("", {"ANYDML_CACHE_DIR": "/dev/null/kernels"}, id="below a device"),
        pytest.param("", {"ANYDML_CACHE_DIR": "/proc/kernels"}, id="no folder can be made"),
    ],
)
def test_where_nothing_can_be_kept_nothing_is_said_of_it(
    become: str, variables: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")}
    env |= {name: value.replace("FOLDER", str(folder)) for name, value in variables.items()}
    command = [sys.executable, "-c", ANSWERS.replace("BECOME", become)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=TIMEOUT)  # noqa: S603 - a Python of ours
    assert done.stdout.strip() == SUMS, done.stderr
    assert "compiled the kernel 'scan columns f32 sum" in done.stderr
    assert "kept in" not in done.stderr
    assert not list(folder.glob("scan*"))
