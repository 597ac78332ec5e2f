"""Softmaxes that become FLOAT16, in an operation an element less."""

from __future__ import annotations

from anydml.enums import DataType
from anydml.ir.expressions import Expr, fold
from anydml.ir.numerics.exponential import is_not_above_zero, raised


def softened(node: Expr) -> Expr:
    """p·(1/Σp), or p/Σp, as a FLOAT16, with 2^64·p in place of the powers p = e^(x - max): the same bits.

    Quotients have the same digits, but for powers that are denormal, and those are 0 as FLOAT16: the sum is 1 or more.
    Of rows of 256 softmax takes 27 operations an element, and is bound by them.
    """
    if node.op != "cast" or node.type is not DataType.FLOAT16 or node.args[0].op not in ("mul", "div"):
        return node
    (whole,) = node.args
    power, by = whole.args
    if power.op != "exp" or not is_not_above_zero(power.args[0]):
        return node
    total = fold("sum", power)
    high = raised(power.args[0]).high
    if whole.op == "div" and by is total:
        return Expr("cast", node.type, (high / fold("sum", high),))
    if whole.op == "mul" and by.op == "div" and by.args[1] is total and by.args[0].op == "const":
        return Expr("cast", node.type, (high * (by.args[0] / fold("sum", high)),))
    return node
