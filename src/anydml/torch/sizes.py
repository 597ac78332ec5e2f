"""Symbols of PyTorch as numbers of ours: sizes that a graph keeps symbolic, or those of one call."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import torch

from anydml.torch.lower.context import NotLoweredError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
}


def is_symbolic(value: Any) -> bool:
    """Whether a number depends on symbols."""
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def symbols_of(value: Any) -> set[str]:
    """The symbols in a number, or in the sizes and strides of a tensor."""
    if isinstance(value, torch.Tensor):
        return set().union(*map(symbols_of, (*value.shape, *value.stride())))
    return {str(one) for one in value.node.expr.free_symbols} if is_symbolic(value) else set()


def symbol(value: Any) -> str | None:
    """The name of a size that is a symbol by itself."""
    if not isinstance(value, torch.SymInt):
        return None
    expression = value.node.expr
    return str(expression) if expression.is_Symbol else None


def hint(value: Any) -> int:
    """What a size was when PyTorch traced the model."""
    return int(value.node.hint) if is_symbolic(value) else int(value)


def find_symbols(values: Iterable[Any]) -> dict[str, tuple[int, int | None]]:
    """Where the symbols of a graph are found: by name, an argument's number, and one of its dimensions."""
    found: dict[str, tuple[int, int | None]] = {}
    for k, value in enumerate(values):
        several = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
        for dim, one in several:
            if (name := symbol(one)) is not None:
                found.setdefault(name, (k, dim))
    return found


def evaluate(value: Any, symbols: Mapping[str, Any]) -> Any:
    """A number of PyTorch's, with its symbols as they are given."""
    if not is_symbolic(value):
        return value
    if not isinstance(value, torch.SymInt):
        raise NotLoweredError("a number that depends on sizes and is not whole")
    return _walk(value.node.expr, symbols)


def _walk(expression: Any, symbols: Mapping[str, Any]) -> Any:
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        if str(expression) not in symbols:
            raise NotLoweredError(f"the size {expression}, which no tensor has")
        return symbols[str(expression)]
    args = expression.args
    if expression.is_Add:
        return functools.reduce(operator.add, [_walk(one, symbols) for one in args])
    if expression.is_Mul:
        divisor = functools.reduce(operator.mul, [one.q for one in args if one.is_Rational], 1)
        factors = [int(one.p) if one.is_Rational else _walk(one, symbols) for one in args]
        found = functools.reduce(operator.mul, factors)
        return found if divisor == 1 else found // int(divisor)
    if expression.is_Pow and args[1].is_Integer and args[1] > 0:
        return functools.reduce(operator.mul, [_walk(args[0], symbols)] * int(args[1]))
    if (operation := _OPERATIONS.get(type(expression).__name__)) is not None:
        return operation(_walk(args[0], symbols), _walk(args[1], symbols))
    raise NotLoweredError(f"a size computed as {expression}")
