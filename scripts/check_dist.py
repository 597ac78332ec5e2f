"""Try what `make dist` built: `python -m scripts.check_dist dist`.

The wheel must have every file of the package that is no cache, and be of use in an environment that has nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRIES = """
import numpy as np, anydml as dml, pydirectml
assert "site-packages" in dml.__file__, dml.__file__
assert dml.relu(np.array([-1.0, 2.0], "float32")).tolist() == [0, 2]
assert dml.gelu(np.array([0.0], "float32")).tolist() == [0]
assert "<style>" in dml.Slice1.infer(
    input_tensor=dml.TensorDesc("float32", (4,)),
    input_window_offsets=(0,), input_window_sizes=(4,), input_window_strides=(2,),
)._repr_html_()
assert ">>>" in dml.relu.__doc__
print("anydml", dml.__version__, "and pydirectml are imported, and compute")
"""


def source_files() -> set[str]:
    """The files of the packages, as a wheel names them."""
    found = (path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts and "egg-info" not in str(path)}


def check_files(wheel: Path, sdist: Path) -> None:
    """Both must have every file of the packages."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    with tarfile.open(sdist) as tape:
        names = {name.partition("/")[2].removeprefix("src/") for name in tape.getnames()}
    for archive_path, there in ((wheel, packed), (sdist, names)):
        if missing := sorted(source_files() - there):
            sys.exit(f"{archive_path.name} lacks {', '.join(missing)}")
    print(f"{wheel.name} and {sdist.name} have all {len(source_files())} files")


def check_use(wheel: Path, folder: Path) -> None:
    """Install the wheel with what it needs, and nothing else, and use it from a folder without the source."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)  # noqa: S603 - our own
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"]
    options = ["--disable-pip-version-check", "--requirement", ROOT / "requirements" / "run.txt", wheel]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    commands: list[list[object]] = [
        [*pip, *options],
        [programs / "python", "-W", "error", "-c", TRIES],
        [programs / "anydml", "examples"],
        [programs / "anydml", "run", "examples/models/slice1.json"],
        [programs / "anydml", "explain", "relu", "--data", "1,-2", "--html", folder / "relu.html"],
    ]
    for command in commands:
        subprocess.run([str(part) for part in command], check=True, cwd=folder, env=clean)  # noqa: S603 - our own


if __name__ == "__main__":
    (wheel,), (sdist,) = (list(Path(sys.argv[1]).resolve().glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    check_files(wheel, sdist)
    with tempfile.TemporaryDirectory() as name:
        check_use(wheel, Path(name))
