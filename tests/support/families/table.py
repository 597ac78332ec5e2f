"""The families, and what is the same for an operator of any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from families import copies, elementwise, folding, moving, products

if TYPE_CHECKING:
    from hypothesis import strategies as st

    from drawing import Case, Operator
    from families.family import Family

FAMILIES = (copies.FAMILY, elementwise.FAMILY, folding.FAMILY, moving.FAMILY, products.FAMILY)
MEMBERS: dict[Operator, Family] = {cls: family for family in FAMILIES for cls in family.operators}


def cases(cls: Operator) -> st.SearchStrategy[Case]:
    """Valid descriptions of an operator, with data."""
    return MEMBERS[cls].cases((cls,))
