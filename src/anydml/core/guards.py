"""Tapes: what was done with open sizes and found of them, and what comes of it for others."""

from __future__ import annotations

import functools
import math
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from anydml.core.symbolic_sizes import OpenSize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from anydml.core.symbolic_sizes import Number

_state = threading.local()

T = TypeVar("T")
Cached = TypeVar("Cached", bound="Callable[..., Any]")


def tape_on() -> Tape | None:
    """This thread's tape that is on: what is then computed must not be found in caches, nor be kept there."""
    found: Tape | None = getattr(_state, "tape", None)
    return found


@contextmanager
def entered(tape: Tape | None) -> Iterator[None]:
    """Have a tape on, or none, in this thread meanwhile."""
    before, _state.tape = tape_on(), tape
    try:
        yield
    finally:
        _state.tape = before


def off_tape() -> AbstractContextManager[None]:
    """Do something that is not to be noted."""
    return entered(None)


@contextmanager
def unnoted() -> Iterator[None]:
    """Do something whose result is the same for all sizes, open ones being the numbers that they are now."""
    if (tape := tape_on()) is None:
        yield
    else:
        with tape.reading(tape.values):
            yield


def own_cache(cache: dict[Any, T]) -> dict[Any, T]:
    """A cache, or in its place one of the tape that is on, which goes with it.

    Its keys must be exact: a signal's handler may look for plain sizes there, and must not find open ones.
    """
    tape = tape_on()
    if tape is None:
        return cache
    found = tape.caches.get(id(cache)) if tape.keeps else _Cache(tape)
    if found is None:
        found = tape.caches[id(cache)] = _Cache(tape)
    return found


class _Cache(dict[Any, Any]):
    """Answers for sizes of a tape, which are told apart by what they are computed by, whatever their numbers are now.

    So nothing is found of them: an answer that is not found is computed, as it is for numbers that differ.
    """

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def get(self, key: Any, default: Any = None) -> Any:
        with self._tape.naming():
            return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        with self._tape.naming():
            return super().__contains__(key)

    def __getitem__(self, key: Any) -> Any:
        with self._tape.naming():
            return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._tape.naming():
            super().__setitem__(key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ()


def cached(most: int) -> Callable[[Cached], Cached]:
    """Keep the answers of a function; while a tape is on, its own alone: a plain size that is equal would pin it."""

    def keep(function: Cached) -> Cached:
        plain, opened = functools.lru_cache(maxsize=most)(function), dict[Any, Any]()

        @functools.wraps(function)
        def ask(*given: Any) -> Any:
            if tape_on() is None:
                return plain(*given)
            own = own_cache(opened)
            if (found := own.get(given, own)) is own:
                found = own[given] = function(*given)
            return found

        return cast("Cached", ask)

    return keep


class Finding(NamedTuple):
    """What was found of open sizes."""

    line: int
    """Its place on the tape."""
    text: str
    """A condition, as Python."""
    is_so: bool


_FINDING = re.compile(r"if (not )?\((.*)\): return None")
_SIZE = re.compile(r"\bv(\d+)\b")


class Tape:
    """The operations on open sizes, line by line, and their values at present."""

    is_lasting = False
    """Whether its sizes may be copied and pickled."""
    keeps = True
    """Whether what is found of its sizes is noted, so that caches of its own may find equal ones."""

    def __init__(self) -> None:
        self.values: list[Number] = []
        """By number, what is given and what was computed."""
        self.given = 0
        self.is_on = True
        """Whether it is noted what is done."""
        self.is_read = False
        """Whether the numbers may be looked at, being those of a replay."""
        self.is_named = False
        """Whether sizes are told apart by their numbers here, not by their values."""
        self.is_written = False
        """Whether a size is its number in a text, and pinned: names and texts of kernels are made of sizes."""
        self.computed: dict[tuple[str, bool, int, int], Any] = {}
        """What was computed of a size and a plain number, by the sign, whether the number comes first, and both."""
        self.found: dict[tuple[str, int, int], bool] = {}
        """What was found of a size and a plain number, by the sign and both."""
        self.caches: dict[int, _Cache] = {}
        """By the id of a cache, what it has of open sizes."""
        self._lines: list[str] = []
        self._known: dict[str, OpenSize] = {}
        self._made: dict[str, int] = {}
        """What is computed, and its number, when all is noted."""
        self._found: set[str] = set()
        self._expected: list[tuple[Callable[[], bool], bool]] = []
        self._hashed: set[int] = set()
        self._plain: frozenset[int] = frozenset()
        self._recorded: Sequence[Number] = ()
        """The numbers that it was recorded with, whatever another thread reads meanwhile, or read as this forked."""
        self._replay: Callable[..., list[Number] | None] | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note what this thread does."""
        try:
            with entered(self):
                yield
        finally:
            self.is_on = False

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Tell sizes apart by what they are computed by meanwhile."""
        before, self.is_named = self.is_named, True
        try:
            yield
        finally:
            self.is_named = before

    def open(self, value: int) -> OpenSize:
        """A size that is given; all are opened before anything is computed."""
        self.given += 1
        self.values.append(value)
        return OpenSize(self, len(self.values) - 1)

    def show(self, number: int) -> str:
        """A size as it is written: expressions tell constants apart by it."""
        return f"<open {id(self)}.{number}>"

    def make(self, text: str, value: Number) -> OpenSize:
        """A size computed of others."""
        if (known := self._known.get(text)) is None:
            number = len(self.values)
            self.values.append(value)
            self._lines.append(f"v{number} = {text}")
            known = self._known[text] = OpenSize(self, number)
        return known

    def find(self, text: str, *, is_so: bool) -> bool:
        """Note what was found."""
        if text not in self._found:
            self._found.add(text)
            self._lines.append(f"if {'not ' * is_so}({text}): return None")
        return is_so

    def hash(self, number: int) -> int:
        """A size is looked for among others, and is no other's then, nor a plain number that it differs from now."""
        if self.is_on:
            self._hashed.add(number)
        return hash(self.values[number])

    def pin(self, number: int) -> Number:
        """Somebody needs the number itself."""
        value = self.values[number]
        if self.is_on:
            self.find(f"v{number} == {value!r}", is_so=True)
        return value

    def pin_all(self) -> None:
        """Somebody looked at elements that depend on sizes."""
        for number in range(self.given):
            self.pin(number)

    def keep(self, plain: Iterable[int]) -> None:
        """End: `plain` are the numbers beside the open ones that sizes are told from."""
        self.is_on = False
        self._plain, self._recorded = frozenset(plain), self.values
        self.caches.clear()
        self.computed.clear()
        self.found.clear()
        self._made = {text: size.number for text, size in self._known.items()}
        self._known.clear()

    def continued(self, numbers: Sequence[Number]) -> Tape:
        """Another that begins with all of this one, for sizes of which the same is found; its first sizes have the
        numbers that they have here. It is for an engine: a size that gets into a text is pinned.
        """
        other = Tape()
        other.is_written = True
        other.values, other.given = list(numbers), self.given
        other._lines, other._found, other._hashed = [*self._lines], {*self._found}, {*self._hashed}
        other._known = {text: OpenSize(other, number) for text, number in self._made.items()}
        return other

    @property
    def length(self) -> int:
        """How many lines it has."""
        return len(self._lines)

    def findings(self, first: int = 0, last: int | None = None) -> list[Finding]:
        """What was found between two lines."""
        matches = ((k, _FINDING.fullmatch(line)) for k, line in enumerate(self._lines[first:last], first))
        return [Finding(k, match[2], match[1] is not None) for k, match in matches if match is not None]

    def condition(self, *findings: Finding) -> tuple[set[int], Callable[..., bool]]:
        """Whether the same would be found of other sizes: the given ones that it depends on, and a function of all."""
        made = {int(line[1 : line.index(" ")]): line for line in self._lines if line.startswith("v")}
        numbers: set[int] = set()
        unread = [int(number) for one in findings for number in _SIZE.findall(one.text)]
        while unread:
            if (number := unread.pop()) not in numbers:
                numbers.add(number)
                unread += [int(one) for one in _SIZE.findall(made.get(number, "").partition(" = ")[2])]
        asked = " and ".join(f"{'' if one.is_so else 'not '}({one.text})" for one in findings) or "True"
        head = f"def holds({', '.join(f'v{i}' for i in range(self.given))}):"
        lines = [head, *(made[number] for number in sorted(numbers) if number in made), f"return {asked}"]
        spaced: dict[str, Any] = {"math": math}
        exec("\n ".join(lines), spaced)  # noqa: S102 - of lines that were written here
        return {number for number in numbers if number < self.given}, spaced["holds"]

    def at(self, given: Sequence[int]) -> list[Number] | None:
        """All numbers for sizes that are given; None where something else would be found of them."""
        if self._replay is None:
            names = [f"v{i}" for i in range(len(self.values))]
            head = f"def replay({', '.join(names[: self.given])}):"
            lines = [head, *self._lines, f"return [{', '.join(names)}]"]
            spaced: dict[str, Any] = {"math": math}
            exec("\n ".join(lines), spaced)  # noqa: S102 - of lines that were written here
            self._replay = spaced["replay"]
        try:
            found = self._replay(*given)
        except (ArithmeticError, ValueError):
            return None
        return found if found is not None and self._tells_apart(found) else None

    @contextmanager
    def reading(self, values: list[Number]) -> Iterator[None]:
        """Let the open sizes be these numbers meanwhile, and plain ones; one thread at a time."""
        before = self.values, self.is_on, self.is_read
        self.values, self.is_on, self.is_read = values, False, True
        try:
            with off_tape():
                yield
        finally:
            self.values, self.is_on, self.is_read = before

    def expect(self, check: Callable[[], bool]) -> bool:
        """Note what is found of elements that depend on open sizes, whatever it is looked for with."""
        with self.reading(self.values):
            found = check()
        self._expected.append((check, found))
        return found

    @property
    def expects(self) -> bool:
        """Whether something was found of elements that depend on open sizes."""
        return bool(self._expected)

    def is_as_expected(self) -> bool:
        """Whether the same is found of elements, being read."""
        return all(check() == found for check, found in self._expected)

    def _tells_apart(self, found: list[Number]) -> bool:
        """Whether sizes that were looked for among others differ where they did."""
        seen: dict[Number, Number] = {}
        for number in self._hashed:
            before, now = self._recorded[number], found[number]
            if seen.setdefault(now, before) != before or (now != before and now in self._plain):
                return False
        return True
