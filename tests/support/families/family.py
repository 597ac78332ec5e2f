"""What a family of operators is to the tests: who is in it, what draws descriptions of it, and what judges answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis import strategies as st

    import anydml as dml
    from drawing import Array, Case, Operator
    from refusals import Broken


@dataclass(frozen=True)
class Family:
    """A row of the table in `table.py`, of which `tests/operators/test_families.py` makes tests."""

    operators: Sequence[Operator]
    cases: Callable[[Sequence[Operator]], st.SearchStrategy[Case]]
    """Random valid descriptions of some of the operators, with data."""
    expected: Callable[[dml.OperatorDesc, list[Array]], Any]
    """The oracle's answers, as `check` takes them."""
    check: Callable[[dml.OperatorDesc, list[Array], Any, str], None]
    """Compare what an engine gives with the oracle's answers, within the family's tolerance."""
    examples: Callable[[Operator], Iterable[tuple[dml.OperatorDesc, list[Array]]]] | None = None
    """Every type with every attribute, and values at which arithmetic goes wrong; cases draw them otherwise."""

    rules: Sequence[Broken] = ()
    """Each rule, broken, with the wording of its error; of the moving family `tests/operators/` has others."""
    is_drawn_on_cuda: bool = False
    """Whether a GPU, or Triton's interpreter, is given them too: others have tests of its kernels."""

    def wanted(self, case: Case, engine: str) -> Any:
        """The oracle's answers to a random case."""
        return self.expected(case.description(), arrays_of(case))


def arrays_of(case: Case) -> list[Array]:
    """The inputs, in binding order."""
    return [case.contents[slot][case.tensors[slot].places].reshape(case.tensors[slot].sizes) for slot in case.contents]
