"""Python's operators on the expressions of a graph: `a + b`, `2 * a`, `a @ b`, `-a`, `abs(a)`, `a < b`."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from anydml.errors import DescriptionError, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    import numpy as np

    from anydml.expression import Expression

    Operand: TypeAlias = "Expression | float | np.number[Any] | Sequence[Any]"

operations: dict[str, Callable[..., Expression]] = {}
"""The function of each operator, by its name in the module `operator`: the functions enter it, a layer above."""


def _apply(name: str, *operands: object) -> Expression:
    """The result for operands that a graph can take, or for arrays, whose error names the way out."""
    if all(isinstance(x, (Arithmetic, numbers.Real, list, tuple)) or hasattr(x, "shape") for x in operands):
        return operations[name](*operands)
    return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand


class Arithmetic:
    """The operators of DirectMLX's expressions, each a function of DirectML's operators, with numbers, or
    lists of them, on either side.

    `%` has the sign of its first operand, as MODULUS_TRUNCATE; `&`, `|`, `^` and `~` are of bits; comparisons are 1 or
    0, of UINT8. `==` compares expressions, not their elements: that is `equals`.
    """

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # so that NumPy leaves `array + expression` to the expression

    def equals(self, other: Operand) -> Expression:
        """Whether elements are equal: LOGICAL_EQUALS."""
        return _apply("eq", self, other)

    def __bool__(self) -> NoReturn:
        rule = f"{self!r} stands for a tensor that is not there yet, and is neither true nor false"
        way_out = "if_(condition, a, b) chooses by element, and compiled(…) gives an array"
        raise DescriptionError("Graph", Fault(field="expression", rule=rule, way_out=way_out))

    # fmt: off
    def __add__(self, other: Operand) -> Expression: return _apply("add", self, other)
    def __radd__(self, other: Operand) -> Expression: return _apply("add", other, self)
    def __sub__(self, other: Operand) -> Expression: return _apply("sub", self, other)
    def __rsub__(self, other: Operand) -> Expression: return _apply("sub", other, self)
    def __mul__(self, other: Operand) -> Expression: return _apply("mul", self, other)
    def __rmul__(self, other: Operand) -> Expression: return _apply("mul", other, self)
    def __matmul__(self, other: Operand) -> Expression: return _apply("matmul", self, other)
    def __rmatmul__(self, other: Operand) -> Expression: return _apply("matmul", other, self)
    def __truediv__(self, other: Operand) -> Expression: return _apply("truediv", self, other)
    def __rtruediv__(self, other: Operand) -> Expression: return _apply("truediv", other, self)
    def __mod__(self, other: Operand) -> Expression: return _apply("mod", self, other)
    def __rmod__(self, other: Operand) -> Expression: return _apply("mod", other, self)
    def __pow__(self, other: Operand) -> Expression: return _apply("pow", self, other)
    def __rpow__(self, other: Operand) -> Expression: return _apply("pow", other, self)
    def __and__(self, other: Operand) -> Expression: return _apply("and_", self, other)
    def __rand__(self, other: Operand) -> Expression: return _apply("and_", other, self)
    def __or__(self, other: Operand) -> Expression: return _apply("or_", self, other)
    def __ror__(self, other: Operand) -> Expression: return _apply("or_", other, self)
    def __xor__(self, other: Operand) -> Expression: return _apply("xor", self, other)
    def __rxor__(self, other: Operand) -> Expression: return _apply("xor", other, self)
    def __lshift__(self, other: Operand) -> Expression: return _apply("lshift", self, other)
    def __rlshift__(self, other: Operand) -> Expression: return _apply("lshift", other, self)
    def __rshift__(self, other: Operand) -> Expression: return _apply("rshift", self, other)
    def __rrshift__(self, other: Operand) -> Expression: return _apply("rshift", other, self)
    def __lt__(self, other: Operand) -> Expression: return _apply("lt", self, other)
    def __le__(self, other: Operand) -> Expression: return _apply("le", self, other)
    def __gt__(self, other: Operand) -> Expression: return _apply("gt", self, other)
    def __ge__(self, other: Operand) -> Expression: return _apply("ge", self, other)
    def __neg__(self) -> Expression: return _apply("neg", self)
    def __abs__(self) -> Expression: return _apply("abs", self)
    def __invert__(self) -> Expression: return _apply("invert", self)
