"""The page's files: a shell for the server, and pages of one file that need none."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from anydml.engines.webgpu.page import runner
from anydml.explain.colours import DARK, LIGHT
from anydml.explain.html import document, picture_script, picture_style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TYPES = {"css": "text/css", "js": "text/javascript", "html": "text/html", "svg": "image/svg+xml"}


def shell() -> str:
    """The page that a server gives."""
    return read("index.html").replace("{result}", result("", ""))


def result(picture: str, answers: str) -> str:
    """The result of a form: a picture to step through, and the answers."""
    return read("result.html").replace("{picture}", picture).replace("{answers}", answers)


def file(name: str) -> tuple[str, str] | None:
    """A file of the page, and its type."""
    if name in _MADE:
        return _MADE[name](), _TYPES[name.rpartition(".")[2]]
    names = {one.name for one in resources.files(__package__).joinpath("static").iterdir()}
    ending = name.rpartition(".")[2]
    return (read(name), _TYPES[ending]) if name in names and ending in _TYPES else None


@functools.cache
def read(name: str) -> str:
    """A file as it lies in the package."""
    return resources.files(__package__).joinpath("static", name).read_text("utf-8")


_MORE = (
    (("#f3ecc2", "#6b5a00"), ("#3c3609", "#dcc64a")),
    (("#ffdfd9", "#a8341b"), ("#4d2019", "#ff9d87")),
    (("#e3ecc8", "#4c6410"), ("#2c380e", "#b5d45c")),
    (("#e4e6f0", "#4a5578"), ("#2c3145", "#a9b4dc")),
    (("#ecdccf", "#75492a"), ("#3d2b1f", "#d9a883")),
)
"""Hues after those of pictures, light and dark: there are more categories of nodes."""


def colours() -> str:
    """The colours of pictures for the whole page: the reader's choice, or else the system's."""
    schemes = (
        LIGHT._replace(hues=LIGHT.hues + tuple(a for a, _ in _MORE)),
        DARK._replace(hues=DARK.hues + tuple(b for _, b in _MORE)),
    )
    light, dark = (scheme.variables() for scheme in schemes)
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f'@media (prefers-color-scheme:dark){{:root:not([data-theme="light"]){{color-scheme:dark;{dark}}}}}\n'
        f':root[data-theme="dark"]{{color-scheme:dark;{dark}}}\n'
    )


def joined(*names: str) -> str:
    """Modules as one, for a page that may load nothing: a scope for each, out of which only what it exports is seen."""
    return "\n".join(_scope(read(name)) for name in names)


def _scope(module: str) -> str:
    exported = ", ".join(re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", module, flags=re.M))
    text = re.sub(r"^export (?=\w)", "", re.sub(r'^import .* from "\./.*";\n', "", module, flags=re.M), flags=re.M)
    return (
        f"const {{ {exported} }} = (() => {{\n{text}return {{ {exported} }};\n}})();" if exported else f"{{\n{text}}}"
    )


_MODEL = (
    "elements.js",
    "minimap.js",
    "reports.js",
    "sizes.js",
    "files.js",
    "export.js",
    "panel.js",
    "shades.js",
    "viewport.js",
    "stage.js",
    "model.js",
    "model_data.js",
)
_MADE: dict[str, Callable[[], str]] = {
    "colours.css": colours,
    "picture.css": picture_style,
    "picture.js": picture_script,
    "runner.js": runner,
    "model_alone.js": lambda: joined(*_MODEL),
}
"""Files that lie elsewhere or are made: pictures' styles and script, what runs recordings, modules as one."""


def standalone(title: str, body: str, styles: Sequence[str], scripts: Sequence[str], data: Any = None) -> str:
    """A page in one file that may load nothing: files' names, and `data` for scripts as JSON in `#data`."""
    texts = [f"\n{text}\n" for text in _texts(scripts)]
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in texts)
    style = "\n".join(_texts(styles))
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; img-src data:"
    told = "" if data is None else f'<script type="application/json" id="data">{_safe_json(data)}</script>\n'
    modules = "\n".join(f'<script type="module">{text}</script>' for text in texts)
    return document(title, style, f"{body}\n{told}{modules}", policy)


def _texts(names: Sequence[str]) -> list[str]:
    return [found[0] for name in names if (found := file(name)) is not None]


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _safe_json(data: Any) -> str:
    """JSON in which nothing ends the element that it stands in."""
    return json.dumps(data).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
