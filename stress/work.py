"""An item of work: what must come out, what does come out, and whether these are the same."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array: TypeAlias = np.ndarray[Any, Any]
JUDGED = "ANYDML_STRESS_ENGINE"


def judged() -> str:
    """The engine whose answers are judged: a child's role may say which."""
    return os.environ.get(JUDGED, "cpu")


class WrongError(Exception):
    """An answer that is wrong by itself, whatever the reference engine says."""


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for an item's files, which is removed without a descriptor.

    `shutil.rmtree` closes one twice where an interrupt comes between the first time and its note of it: by then it may
    be another thread's.
    """
    made = Path(tempfile.mkdtemp(prefix="anydml-stress-"))
    try:
        yield made
    finally:
        for file in made.iterdir():
            file.unlink(missing_ok=True)
        made.rmdir()


@dataclass(frozen=True, slots=True)
class Work:
    """Something to run by a door, and the same on the reference engine."""

    door: str
    about: str
    wanted: Callable[[], list[Array]]
    got: Callable[[], list[Array]]
    is_lean: bool = False
    """Whether it needs little stack once its kernels are there."""

    is_exact: bool = True
    """Whether the cpu engine has the reference's bits; functions such as exp are a unit in the last place apart."""

    def judge(self) -> str:
        """The fault of the answer; nothing where it is right. Errors that are no DmlError pass through."""
        try:
            wanted, got = _outcome(self.wanted), _outcome(self.got)
        except WrongError as error:
            return str(error)
        if isinstance(wanted, dml.DmlError) or isinstance(got, dml.DmlError):
            return "" if _alike(wanted, got) else f"wanted {_name(wanted)}; got {_name(got)}"
        if len(wanted) != len(got):
            return f"wanted {len(wanted)} arrays; got {len(got)}"
        return next(
            (
                said
                for a, b in zip(wanted, got, strict=True)
                if (said := _compare(a, b, is_exact=self.is_exact and judged() == "cpu"))
            ),
            "",
        )


def _outcome(run: Callable[[], list[Array]]) -> list[Array] | dml.DmlError:
    try:
        return [np.asarray(array).ravel() for array in run()]
    except dml.DmlError as error:
        if isinstance(error.__cause__, MemoryError | SystemError):  # which befall the one engine and not the other
            raise error.__cause__ from None
        return error


def _alike(wanted: list[Array] | dml.DmlError, got: list[Array] | dml.DmlError) -> bool:
    """Whether both are refused for the same: a model's constant indices are checked as it is loaded, in its words."""
    if isinstance(wanted, dml.IndexRangeError) and isinstance(got, dml.ModelError):
        return str(wanted).partition(";")[0] in str(got)
    return type(wanted) is type(got)


def _name(outcome: list[Array] | dml.DmlError) -> str:
    return f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, dml.DmlError) else "an answer"


def _compare(wanted: Array, got: Array, *, is_exact: bool) -> str:
    """Bit for bit, or close, one NaN as good as another."""
    if (wanted.dtype, wanted.size) != (got.dtype, got.size):
        return f"wanted {wanted.size} of {wanted.dtype}; got {got.size} of {got.dtype}"
    if wanted.dtype == object:  # texts
        return "" if wanted.tolist() == got.tolist() else f"wanted {wanted.tolist()}; got {got.tolist()}"
    differ = wanted.view(f"u{wanted.itemsize}") != got.view(f"u{got.itemsize}")
    if wanted.dtype in (np.float16, np.float32, np.float64):  # NumPy knows no others, of 8 bits and fewer
        differ &= ~(np.isnan(wanted) & np.isnan(got))
        if not is_exact:
            step = float(np.finfo(wanted.dtype).eps)
            differ &= ~np.isclose(wanted.astype("f8"), got.astype("f8"), rtol=64 * step, atol=64 * step)
    if not differ.any():
        return ""
    first = int(np.argmax(differ))
    return f"{int(differ.sum())} of {got.size} elements; the first at {first}: wanted {wanted[first]}, got {got[first]}"
