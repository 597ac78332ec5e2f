"""The table as it is printed: a line a row, marks where a goal is missed, and a last line that counts."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.results import MARKS, Result, judge, marks, trouble

LABELS = {"anydml": "ours", "onnxruntime": "onnxrt", "compile": "t.compile"}
NAMES = {"torch": "PyTorch", "compile": "torch.compile", "cupy": "CuPy", "jax": "JAX", "numpy": "NumPy",
         "onnxruntime": "ONNX Runtime"}  # fmt: skip


FIGURES = {
    "vs_best_peer": "vs peer",
    "share_of_copy": "of copy",
    "share_of_peak": "of peak",
    "vs_single": "vs single",
    "vs_compile": "vs t.compile",
}
"""The ratios, and their columns; a row has the last two only as a chain."""


def header(result: Result, contestants: Sequence[str]) -> str:
    """The columns of a row and those like it."""
    cells = " ".join(f"{LABELS.get(name, name):>9}" for name in _shown(result, contestants))
    return f"{'row':46} {cells} " + " ".join(f"{text:>8}" for name, text in FIGURES.items() if name in result)


def line(result: Result, contestants: Sequence[str]) -> str:
    seconds = result["seconds"]
    cells = [f"{written(seconds.get(name), seconds.get('anydml')):>9}" for name in _shown(result, contestants)]
    figures = [f"{ratio(result[name]):>{max(8, len(text))}}" for name, text in FIGURES.items() if name in result]
    host = f"host {result['host_us']:.1f} us" if result.get("host_us") is not None else ""
    remarks = " ".join(filter(None, [host, marks(result), trouble(result)]))
    return f"{result['name']:46} {' '.join(cells)} {' '.join(figures)} {remarks}".rstrip()


def _shown(result: Result, contestants: Sequence[str]) -> list[str]:
    return [*contestants, *(["single"] if "vs_single" in result else [])]


def written(seconds: float | None, ours: float | None = None) -> str:
    """A time, in the unit that suits ours."""
    if seconds is None:
        return "-"
    unit, factor = ("us", 1e6) if (ours or seconds) < 1e-4 else ("ms", 1e3)
    return f"{seconds * factor:.2f} {unit}"


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def summary(results: Sequence[Result]) -> str:
    """How many goals are met, and which marks stand for those that are not."""
    judged = [(name, met) for result in results for name, met in judge(result).items()]
    missed = {name: sum(not met for other, met in judged if other == name) for name in MARKS}
    text = f"goals met: {sum(met for _, met in judged)} of {len(judged)}"
    if any(missed.values()):
        text += "; missed: " + ", ".join(f"{n} {name} ({MARKS[name]})" for name, n in missed.items() if n)
    if compared := [result["vs_compile"] for result in results if result.get("vs_compile") is not None]:
        text += f"\nchains at least twice as fast as torch.compile: {sum(r >= 2 for r in compared)} of {len(compared)}"
    for word in ("WRONG", "FAILED"):
        if names := [result["name"] for result in results if trouble(result) == word]:
            text += f"\n{word}: {'; '.join(names)}"
    return text
