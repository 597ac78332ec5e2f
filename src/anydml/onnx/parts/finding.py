"""NonZero of few elements and StringNormalizer on the host, by NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Array = np.ndarray[Any, Any]

_FEW = 2**14
"""Elements up to which NumPy takes less time than ONNX Runtime."""


def finder(model: Any) -> Callable[[Mapping[str, Any]], Array | None] | None:
    """A function that runs a model of this node alone; None for others. It gives None for what is not its own."""
    if [(node.op_type, node.domain) for node in model.graph.node] not in ([("NonZero", "")], [("NonZero", "ai.onnx")]):
        return None
    (name,) = model.graph.node[0].input

    def run(given: Mapping[str, Any]) -> Array | None:
        data = given.get(name)
        if type(data) is not np.ndarray or not data.ndim or data.size > _FEW:
            return None
        return np.array(np.nonzero(data), np.int64)

    return run


def only_node(model: Any, kind: str, decode: Callable[[Any], Array]) -> tuple[Any, dict[str, Array]] | None:
    """The node of a model that has one of this type and constants, which `decode` makes arrays of; None for others."""
    others = [node for node in model.graph.node if node.op_type != "Constant"]
    if [(node.op_type, node.domain) for node in others] not in ([(kind, "")], [(kind, "ai.onnx")]):
        return None
    constants = {tensor.name: decode(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node is not others[0] and node.attribute[0].name == "value":
            constants[node.output[0]] = decode(node.attribute[0].t)
    return others[0], constants


def normalizer(model: Any, decode: Callable[[Any], Array]) -> Callable[[Mapping[str, Any]], Array | None] | None:
    """The same for a StringNormalizer, by Unicode's upper and lower case, which is that of English locales."""
    if (found := only_node(model, "StringNormalizer", decode)) is None:
        return None
    node, constants = found
    attributes = {one.name: one for one in node.attribute}

    def text(name: str, default: str) -> str:
        return bytes(attributes[name].s).decode(errors="replace") if name in attributes else default

    action, locale = text("case_change_action", "NONE"), text("locale", "en_US")
    is_exact = "is_case_sensitive" in attributes and bool(attributes["is_case_sensitive"].i)
    words = attributes["stopwords"].strings if "stopwords" in attributes else []
    if action not in _CASES or not locale.startswith(("en_", "C.", "POSIX")):
        return None
    change = _CASES[action]
    compare = _CASES["NONE" if is_exact else "UPPER" if action == "UPPER" else "LOWER"]
    removed = {compare(bytes(word).decode(errors="replace")) for word in words}

    def run(given: Mapping[str, Any]) -> Array | None:
        data = {**constants, **given}.get(node.input[0])
        if not isinstance(data, np.ndarray) or data.ndim not in (1, 2) or (data.ndim == 2 and len(data) != 1):
            return None
        left = [change(word) for word in map(str, data.reshape(-1)) if compare(word) not in removed]
        return np.array(left or [""], object).reshape((1,) * (data.ndim - 1) + (-1,))

    return run


_CASES: dict[str, Callable[[str], str]] = {
    "NONE": str,
    # Letter by letter, as C's towlower: one whose other case is two letters stays as it is.
    "LOWER": lambda word: "".join(low if len(low := letter.lower()) == 1 else letter for letter in word),
    "UPPER": lambda word: "".join(up if len(up := letter.upper()) == 1 else letter for letter in word),
}
