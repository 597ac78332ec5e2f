"""Tales of operators whose steps say less than what they are for: coordinates that are not 0, and random bits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.explain.folds import ReduceTale
from anydml.explain.picture import Element
from anydml.explain.tale import HUES
from anydml.explain.uses import MOST_READ
from anydml.explain.values import number_of, write_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.explain.tale import Landing
    from anydml.explain.values import Values
    from anydml.operators import OperatorDesc


class NonzeroTale(ReduceTale):
    """NONZERO_COORDINATES: which element each row of coordinates is of."""

    legend = (("marked", "not 0, with the number of its row of coordinates"),)

    def __init__(self, desc: OperatorDesc, primitive: Any, values: Mapping[str, Values]) -> None:
        super().__init__(desc, primitive, values)
        sizes, given = desc.inputs()["InputTensor"].sizes, values["InputTensor"]
        places = itertools.islice(np.ndindex(*sizes), MOST_READ)
        self._found = [Element("InputTensor", at) for at in places if given.at(at) != 0]
        """The elements that are not 0, in their order, of those that a picture reads."""

    def landing(self, element: Element) -> Landing:
        """The count, or a coordinate of an element."""
        landing = super().landing(element)
        if element.tensor == "OutputCountTensor":
            few = ", ".join(map(str, self._found[:HUES])) + (", …" if len(self._found) > HUES else "")
            return replace(landing, says=f"{element} = {landing.value}: not 0 {_are(self._found)} {few or 'none'}")
        row, dimension = element.coordinate[-2:]
        if row >= len(self._found):
            return replace(landing, says=f"{element} = {landing.value}, no more elements being other than 0")
        source = self._found[row]
        number = write_value(self._values[source.tensor].at(source.coordinate))
        says = f"{element} = {landing.value}, the place along dimension {dimension} of {source} = {number}"
        return replace(landing, says=says, badge=str(row + 1), hue=1 + row % HUES, marked=source)


def _are(found: list[Element]) -> str:
    return "is" if len(found) == 1 else "are"


_WORDS = 4
"""Of a block of Philox 4x32-10, and of its counter."""


class RandomTale(ReduceTale):
    """RANDOM_GENERATOR: which word of which block each element is; the arithmetic would fill a page."""

    def landing(self, element: Element) -> Landing:
        """One element: a word of a block."""
        landing = super().landing(element)
        if element.tensor == "OutputStateTensor":
            place = element.coordinate[-1]
            what = f"word {place} of the counter after the last block" if place < _WORDS else "the key, as it was"
            return replace(landing, says=f"{element} = {landing.value}, {what}")
        block, word = divmod(number_of(element.coordinate, self._tensors[element.tensor].sizes), _WORDS)
        state = self._values["InputStateTensor"]
        sizes = self._tensors["InputStateTensor"].sizes
        words = [int(state.at((*(0,) * (len(sizes) - 1), k))) for k in range(_WORDS + 2)]
        first = sum(one << 32 * k for k, one in enumerate(words[:_WORDS]))
        counter = [(first + block >> 32 * k) % 2**32 for k in range(_WORDS)]
        after = f" (input_state's + {block})" if block else ""
        says = (
            f"{element} = word {word} of Philox 4x32-10 of the counter {_listed(counter)}{after} "
            f"and the key {_listed(words[_WORDS:])} = {landing.value}"
        )
        return replace(landing, says=says)


def _listed(words: list[int]) -> str:
    return f"{{{','.join(map(str, words))}}}"
