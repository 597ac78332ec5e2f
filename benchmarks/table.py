"""The table as it is printed: a line a row, marks where a goal is missed, and a last line that counts."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.results import MARKS, Result, judge, marks, trouble

LABELS = {"anydml": "ours", "onnxruntime": "onnxrt", "compile": "t.compile"}
NAMES = {"torch": "PyTorch", "compile": "torch.compile", "cupy": "CuPy", "jax": "JAX", "numpy": "NumPy",
         "onnxruntime": "ONNX Runtime"}  # fmt: skip


def header(contestants: Sequence[str]) -> str:
    cells = " ".join(f"{LABELS.get(name, name):>9}" for name in contestants)
    return f"{'row':46} {cells} {'vs peer':>8} {'of copy':>8}"


def line(result: Result, contestants: Sequence[str]) -> str:
    seconds = result["seconds"]
    cells = [f"{written(seconds.get(name), seconds.get('anydml')):>9}" for name in contestants]
    figures = [f"{ratio(result[name]):>8}" for name in ("vs_best_peer", "share_of_copy")]
    host = f"host {result['host_us']:.1f} us" if result.get("host_us") is not None else ""
    remarks = " ".join(filter(None, [host, marks(result), trouble(result)]))
    return f"{result['name']:46} {' '.join(cells)} {' '.join(figures)} {remarks}".rstrip()


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
    for word in ("WRONG", "FAILED"):
        if names := [result["name"] for result in results if trouble(result) == word]:
            text += f"\n{word}: {'; '.join(names)}"
    return text
