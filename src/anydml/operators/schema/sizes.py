"""Sizes that tensors have together, as NumPy broadcasts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from anydml.core.errors import DescriptionError, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence


Sizes: TypeAlias = "tuple[int, ...]"
Spread: TypeAlias = "dict[str, tuple[Sizes, Sizes]]"
"""By field, the sizes that a tensor is seen with, which are its own but for sizes of 1, and those it is repeated to."""


def common_sizes(subject: str, fields: Sequence[str], sizes: Sequence[Sizes], part: str = "") -> Sizes:
    """The sizes that all inputs have together: from the last dimension on equal ones, or 1."""
    rank = max(map(len, sizes))
    padded = [pad(own, rank) for own in sizes]
    found = []
    for dimension in zip(*padded, strict=True):
        first = next((i for i, size in enumerate(dimension) if size != 1), 0)
        other = next((i for i, size in enumerate(dimension) if size not in (1, dimension[first])), None)
        if other is not None:
            names = [f"{fields[i]}.Sizes{part}" for i in (first, other)]
            rule = f"{names[0]} and {names[1]} must be equal or 1 in each dimension, counted from the last"
            got = f"{sizes[first]} and {sizes[other]}"
            raise DescriptionError(
                subject, Fault(field=f"{fields[other]}.Sizes", rule=rule, value=sizes[other], found=got)
            )
        found.append(dimension[first])
    return tuple(found)


def pad(sizes: Sizes, rank: int) -> Sizes:
    """With leading sizes of 1."""
    return (1,) * (rank - len(sizes)) + sizes


def repeats_to(sizes: Sizes, wanted: Sizes) -> bool:
    """Whether sizes of 1 alone keep a tensor from having the sizes that are wanted."""
    return len(sizes) <= len(wanted) and all(
        size in (1, other) for size, other in zip(pad(sizes, len(wanted)), wanted, strict=True)
    )
