"""The colours of a drawing, light and dark. Text has a contrast of at least 4.5 to 1 on every ground it stands on."""

from __future__ import annotations

from typing import NamedTuple


class Scheme(NamedTuple):
    """One set of colours."""

    ground: str
    ink: str
    soft: str
    """For what matters less: captions, numbers of rows and columns."""
    line: str
    cell: str
    window: str
    lit: str
    lit_ink: str
    fault: str
    fault_edge: str
    hues: tuple[tuple[str, str], ...]
    """Ground and edge of cells that belong together."""

    def variables(self) -> str:
        """The colours as CSS variables."""
        names = zip(self._fields[:-1], self[:-1], strict=True)
        hues = [f"--h{i}:{fill};--e{i}:{edge};" for i, (fill, edge) in enumerate(self.hues, 1)]
        return "".join(f"--{name.replace('_', '-')}:{value};" for name, value in names) + "".join(hues)


LIGHT = Scheme(
    ground="#ffffff",
    ink="#16181d",
    soft="#5b6270",
    line="#c9ced8",
    cell="#f6f7f9",
    window="#b3261e",
    lit="#ffd84d",
    lit_ink="#16181d",
    fault="#fde3e1",
    fault_edge="#b3261e",
    hues=(
        ("#d9e8ff", "#1d5fc4"),
        ("#ffe6cc", "#944700"),
        ("#d6f3dc", "#14692d"),
        ("#eadffb", "#6f42c1"),
        ("#fbdcea", "#b0276b"),
        ("#d2f1f1", "#086464"),
    ),
)
DARK = Scheme(
    ground="#16181d",
    ink="#e9ebef",
    soft="#a2a9b6",
    line="#444a56",
    cell="#20232a",
    window="#ff8a80",
    lit="#ffd84d",
    lit_ink="#16181d",
    fault="#4a1f1c",
    fault_edge="#ff8a80",
    hues=(
        ("#173661", "#74aaff"),
        ("#4d2e0a", "#ffb060"),
        ("#143d20", "#62d27f"),
        ("#372358", "#bb9af7"),
        ("#4c1a33", "#ff8fc2"),
        ("#0f3d3d", "#5fd3d3"),
    ),
)
