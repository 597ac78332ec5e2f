"""Open sizes: numbers that compute as they are now, while a tape notes what is done with them and found of them.

What is planned with open sizes holds for all sizes of which the same would be found on the way. Whoever needs the
number itself, as NumPy does, pins it: what is planned then holds for that number alone.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, TypeAlias

from anydml.core.errors import DescriptionError, Fault, show

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from anydml.core.guards import Tape

    Number: TypeAlias = "int | float"


_INTS = {int}


class OpenSize:
    """A number of a tape. It is an `int` to whoever asks, or a `float`, but none to C: that asks for its index."""

    __slots__ = ("_number", "_tape")
    __array_ufunc__ = None

    def __init__(self, tape: Tape, number: int) -> None:
        self._tape, self._number = tape, number

    @property  # type: ignore[misc]  # of an object it can be set
    def __class__(self) -> Any:
        return type(self._tape.values[self._number])

    @property
    def tape(self) -> Tape:
        """Where it is noted."""
        return self._tape

    @property
    def number(self) -> int:
        """By which the tape has it."""
        return self._number

    @property
    def mark(self) -> str:
        """By which expressions tell constants apart."""
        return self._tape.show(self._number)

    def __index__(self) -> int:
        return operator.index(self._tape.pin(self._number))  # type: ignore[arg-type]  # a float raises

    def __int__(self) -> int:
        return int(self._tape.pin(self._number))

    def __float__(self) -> float:
        return float(self._tape.pin(self._number))

    def __bool__(self) -> bool:
        value = self._tape.values[self._number]
        return self._tape.find(f"v{self._number} != 0", is_so=value != 0) if self._tape.is_on else bool(value)

    def __hash__(self) -> int:
        return hash((OpenSize, self._number)) if self._tape.is_named else self._tape.hash(self._number)

    def __neg__(self) -> Any:
        return operator.sub(0, self)

    def __abs__(self) -> Any:
        own: Any = self
        return own if own >= 0 else -own

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __ceil__(self) -> Any:
        return self._rounded(math.ceil)

    def __floor__(self) -> Any:
        return self._rounded(math.floor)

    def _rounded(self, round_: Callable[[Number], int]) -> Any:
        made = round_(self._tape.values[self._number])
        text = f"math.{round_.__name__}(v{self._number})"
        return self._tape.make(text, made) if self._tape.is_on else made

    def __repr__(self) -> str:
        return repr(self._tape.pin(self._number)) if self._tape.is_written else self.mark

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._tape.is_lasting:
            raise TypeError("a symbolic size belongs to its process")
        return OpenSize, (self._tape, self._number)

    def __copy__(self) -> OpenSize:
        return self


class Size:
    """A size of a graph's input by its name, with an example: `g.input("float32", (dml.Size("batch", example=4), 3))`.

    A name alone, `("batch", 3)`, has an example of its own. While the graph is built each size is its example:
    where the shapes of the graph need others (even ones, large ones), give them.
    """

    __slots__ = ("__weakref__", "example", "name")

    def __init__(self, name: str, *, example: int | None = None) -> None:
        faults = []
        if not isinstance(name, str) or not name.isidentifier():
            rule = "name must be a Python name, such as 'batch'"
            faults.append(Fault(field="name", rule=rule, value=name, found=show(name)))
        if example is not None and not (type(example) is int and 1 <= example < 2**32):
            rule = "example must be a whole number of at least 1, or None"
            faults.append(Fault(field="example", rule=rule, value=example, found=show(example)))
        if faults:
            raise DescriptionError("Size", faults)
        self.name, self.example = name, example

    def __eq__(self, other: object) -> bool:
        return type(other) is Size and (self.name, self.example) == (other.name, other.example)

    def __hash__(self) -> int:
        return hash((self.name, self.example))

    def __repr__(self) -> str:
        return f"Size({self.name!r})" if self.example is None else f"Size({self.name!r}, example={self.example})"


def _operand(other: object) -> tuple[str, Number] | None:
    if type(other) is OpenSize:
        return f"v{other.number}", other.tape.values[other.number]
    if type(other) is int or type(other) is float:
        return (f"({other!r})" if math.isfinite(other) else f"float('{other!r}')"), other
    if isinstance(other, float) or not hasattr(other, "__index__"):
        return None
    number = operator.index(other)
    return f"({number!r})", number


_NEUTRAL_LEFT = {"+": 0, "*": 1}
_NEUTRAL = {**_NEUTRAL_LEFT, "-": 0, "//": 1}
"""What changes nothing, on the left and on the right of a size."""


def _computing(sign: str, compute: Callable[[Any, Any], Any], *, is_turned: bool) -> Callable[[Any, Any], Any]:
    neutral = _NEUTRAL_LEFT.get(sign) if is_turned else _NEUTRAL.get(sign)

    def method(self: OpenSize, other: object) -> Any:
        tape = self._tape
        if type(other) is int and tape.is_on:  # of 30 times 29 the same was computed before
            key = sign, is_turned, self._number, other
            if (again := tape.computed.get(key)) is None:
                again = tape.computed[key] = closely(self, other)
            return again
        return closely(self, other)

    def closely(self: OpenSize, other: object) -> Any:
        found, tape = _operand(other), self._tape
        if found is None:
            return NotImplemented
        if type(other) is OpenSize and other.tape is not tape:
            rule = f"sizes must be of one graph: {self!r} is of another than {other!r}"
            raise DescriptionError("Graph", Fault(field="sizes", rule=rule, way_out="int() makes a size a number"))
        name, value = found
        own, present = f"v{self.number}", tape.values[self.number]
        if type(other) is int and type(present) is int and other == neutral:
            return self
        if is_turned:
            made, text = compute(value, present), f"{name} {sign} {own}"
        else:
            made, text = compute(present, value), f"{own} {sign} {name}"
        return tape.make(text, made) if tape.is_on else made

    return method


def _comparing(sign: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def method(self: OpenSize, other: object) -> Any:
        if self is other:
            return compare(0, 0)
        tape = self._tape
        if type(other) is int and tape.is_on and not tape.is_named:
            key = sign, self._number, other
            if (again := tape.found.get(key)) is None:
                again = tape.found[key] = closely(self, other)
            return again
        return closely(self, other)

    def closely(self: OpenSize, other: object) -> Any:
        tape = self._tape
        if tape.is_named:
            is_same = type(other) is OpenSize and (other.tape, other.number) == (tape, self.number)
            return is_same if sign == "==" else NotImplemented if sign != "!=" else not is_same
        if not (tape.is_on or tape.is_read):
            return sign == "!="  # of an earlier tape, found in a cache
        found = _operand(other)
        if found is None or (type(other) is OpenSize and other.tape is not tape):
            return NotImplemented
        name, value = found
        is_so = compare(tape.values[self.number], value)
        return tape.find(f"v{self.number} {sign} {name}", is_so=is_so) if tape.is_on else is_so

    return method


_COMPUTED = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "truediv": "/", "and": "&", "or": "|",
    "xor": "^", "lshift": "<<", "rshift": ">>", "pow": "**",
}  # fmt: skip
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
for _name, _sign in _COMPUTED.items():
    _compute = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(OpenSize, f"__{_name}__", _computing(_sign, _compute, is_turned=False))
    setattr(OpenSize, f"__r{_name}__", _computing(_sign, _compute, is_turned=True))
for _name, _sign in _COMPARED.items():
    setattr(OpenSize, f"__{_name}__", _comparing(_sign, getattr(operator, _name)))


def gcd(*numbers: Any) -> Any:
    """The greatest number that divides all, of open sizes too."""
    found: Any = math.gcd(*(one for one in numbers if type(one) is not OpenSize))
    for one in numbers:
        if type(one) is OpenSize:
            name, value = _operand(found) or ("", 0)
            made = math.gcd(int(value), int(one.tape.values[one.number]))
            found = one.tape.make(f"math.gcd({name}, v{one.number})", made) if one.tape.is_on else made
    return found


def greatest(numbers: Sequence[Any]) -> Any:
    """The greatest of numbers that are not negative, of open sizes too: 0 for none."""
    opened = {one.number: one for one in numbers if type(one) is OpenSize}
    found: Any = max((one for one in numbers if type(one) is not OpenSize), default=0)
    if not opened:
        return found
    tape = next(iter(opened.values())).tape
    made = max(found, *(tape.values[number] for number in opened))
    names = ", ".join(f"v{number}" for number in sorted(opened))
    return tape.make(f"max({found!r}, {names})", made) if tape.is_on else made


LONG = 256
"""What a row of an open size is taken for that is shorter: see `as_long`."""


def as_long(number: Any) -> Any:
    """What a schedule is chosen by that does right for all sizes, and where few elements matter little: an open size is
    taken for a long row, or it would ask for a plan of its own at each threshold that it passes as it grows.
    """
    return greatest((number, LONG)) if type(number) is OpenSize else number


def present(number: Any) -> Any:
    """The number that an open size is now, which says nothing of others: whoever looks must do right for all."""
    return number.tape.values[number.number] if type(number) is OpenSize else number


def value_of(number: Any, numbers: Sequence[Number]) -> Any:
    """The number that an open size is among all of its tape."""
    return numbers[number.number] if type(number) is OpenSize else number


def name_of(number: Any) -> str:
    """A number's text; of an open size one that is no other's, which says nothing of its number."""
    return number.mark if type(number) is OpenSize else repr(number)


def exact(value: object) -> Hashable:
    """A key that finds nothing else: 1, 1.0 and True are equal, so are 0.0 and -0.0, and open sizes and numbers."""
    if isinstance(value, (list, tuple)):
        if value and set(map(type, value)) == _INTS:
            return (type(value), int, *value)
        return (type(value), *map(exact, value))
    if isinstance(value, float):
        return repr(value), float
    return (type(value), value) if isinstance(value, int) else value


def is_open(found: Any) -> bool:
    """Whether there is an open size in a number, or in a list of some."""
    kind = type(found)
    if kind is tuple or kind is list:
        return any(map(is_open, found))
    return kind is OpenSize


def as_numbers(found: Any) -> Any:
    """The same with the numbers of open sizes, which pins them."""
    kind = type(found)
    if kind is tuple or kind is list:
        return kind(map(as_numbers, found))
    return operator.index(found) if kind is OpenSize else found
