"""The layers of the source, which `tests/project/test_architecture.py` holds every module to, and their drawing."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.pages.drawing import PICTURE, frame

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"

# From the bottom to the top: modules of one layer do not import those beside them.
LAYERS = [
    (["core"], "errors, enumerations, symbolic sizes, files"),
    (["arrays", "ir"], "memory of any library; expressions and five verbs"),
    (["operators", "engines"], "what an operator is; kernels, and how one is chosen"),
    (["graph"], "several operators as one program, and its passes"),
    (["runtime"], "create, compile, bind, dispatch"),
    (["api", "explain"], "functions on arrays; pictures of operators and graphs"),
    (["__init__"], "the public names"),
    (["onnx", "pydirectml", "torch"], "ONNX models; Microsoft's module; torch.compile"),
    (["onnxruntime", "dask", "dxdispatch"], "ways in that run ONNX models too"),
    (["genai"], "language models"),
    (["cli", "models"], "the command line; an old name"),
    (["explore", "__main__"], "a local page; the program"),
]
_WIDTH, _ROW, _STEP, _LETTER = 760, 40, 46, 7.9


def draw_layers() -> str:
    """The layers with the highest at the top, framed for a page."""
    height = 16 + _STEP * len(LAYERS)
    about = "The layers of anydml, from the program down to what all stand on"
    size = f'width="{_WIDTH}" height="{height}"'
    box = f'viewBox="0 0 {_WIDTH} {height}" {size}'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-label="{about}">',
        f'<rect class="g" {size} rx="8"/>',
    ]
    for row, (names, caption) in enumerate(reversed(LAYERS)):
        x, y = 30.0, 11 + _STEP * row
        parts.append(f'<rect class="c" x="20" y="{y}" width="{_WIDTH - 40}" height="{_ROW}" rx="8"/>')
        for name in names:
            width = len(name) * _LETTER + 20
            parts.append(f'<rect class="c h{row % 6 + 1}" x="{x:g}" y="{y + 6}" width="{width:g}" height="28" rx="5"/>')
            parts.append(f'<text class="m" x="{x + 10:g}" y="{y + 25}">{name}</text>')
            x += width + 8
        parts.append(f'<text class="s" x="370" y="{y + 25}">{caption}</text>')
    return frame("\n".join((*parts, "</svg>")), PICTURE)


def put_layers(text: str) -> str:
    """A page with the drawing of the layers as it is now."""
    return re.sub(rf'<div class="{PICTURE}".*?</div>', lambda _: draw_layers(), text, count=1, flags=re.DOTALL)
