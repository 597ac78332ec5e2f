"""Search options: GenAI's names, their types and their ranges; what a generator is told by `set_search_options`."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, fields
from typing import Any

from anydml.core.enum_parsing import suggest
from anydml.core.errors import show
from anydml.onnxruntime.ort_errors import refuse, refuse_type

MOST_ROWS, MOST_BEAMS = 32, 32
_INT32 = 2**31


@dataclass
class SearchOptions:
    """How the next token is chosen, and when to stop."""

    batch_size: int = 1
    blank_penalty: float = 0.0
    chunk_size: int = 0
    diversity_penalty: float = 0.0
    do_sample: bool = False
    early_stopping: bool = True
    length_penalty: float = 1.0
    max_length: int = 0
    min_length: int = 0
    no_repeat_ngram_size: int = 0
    num_beams: int = 1
    num_return_sequences: int = 1
    past_present_share_buffer: bool = False
    random_seed: int = -1
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.0

    def set(self, name: str, value: object, subject: str = "GeneratorParams") -> None:
        """Set one by its name."""
        known = {field.name: type(field.default) for field in fields(self)}
        if name not in known:
            way_out = suggest(name, known) or f"there are {', '.join(known)}"
            raise refuse(subject, name, f"there is no search option {show(name)}", way_out=way_out)
        setattr(self, name, _READERS[known[name]](subject, name, value))

    def told(self) -> dict[str, Any]:
        """By their names, numbers as floats, as GenAI tells them."""
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "blank_penalty"}
        return {name: value if isinstance(value, bool) else float(value) for name, value in found.items()}

    def check(self, context_length: int, vocab_size: int) -> None:
        """Refuse what cannot be together, or with a model of such a context and vocabulary."""
        for name, least, most in (
            ("max_length", 1, context_length),
            ("batch_size", 1, MOST_ROWS),
            ("num_beams", 1, MOST_BEAMS),
            ("num_return_sequences", 1, self.num_beams),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                why = {"max_length": ", the model's context_length", "num_return_sequences": ", as many as num_beams"}
                raise refuse("Generator", name, f"{name} must be {least} to {most}{why.get(name, '')}", str(value))
        if self.repetition_penalty <= 0:
            raise refuse("Generator", "repetition_penalty", "it must be above 0", str(self.repetition_penalty))
        if not self.samples:
            return
        if self.num_beams > 1:
            way_out = "set do_sample=False, or num_beams=1"
            raise refuse("Generator", "num_beams", "beams cannot be sampled", str(self.num_beams), way_out)
        if not 0 <= self.top_p <= 1:
            raise refuse("Generator", "top_p", "top_p must be 0 to 1", str(self.top_p))
        if not 0 <= self.top_k <= vocab_size:
            rule = f"top_k must be 0, for all, to {vocab_size}, the model's vocab_size"
            raise refuse("Generator", "top_k", rule, str(self.top_k))
        if self.temperature < 0:
            raise refuse("Generator", "temperature", "temperature must be 0 or more", str(self.temperature))

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn; the likeliest is taken else."""
        return self.do_sample and self.top_k != 1 and self.temperature != 0

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is the next one, whatever came before."""
        is_plain = self.repetition_penalty == 1 and self.no_repeat_ngram_size <= 0
        return is_plain and self.num_beams == 1 and not self.samples

    @property
    def rows(self) -> int:
        """The sequences that are decoded at once."""
        return self.batch_size * self.num_beams


def _read_bool(subject: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise refuse_type(subject, name, "of type bool", value)
    return value


def _read_float(subject: str, name: str, value: Any) -> float:
    if isinstance(value, (bool, str)) or not hasattr(type(value), "__float__") or getattr(value, "ndim", False):
        raise refuse_type(subject, name, "a number", value)
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise refuse_type(subject, name, "a number", value) from None
    if not math.isfinite(found):
        raise refuse(subject, name, f"{name} must be finite", str(found))
    return found


def _read_int(subject: str, name: str, value: Any) -> int:
    if isinstance(value, bool):
        raise refuse_type(subject, name, "a whole number", value)
    if isinstance(value, float) and value.is_integer():
        found = int(value)
    else:
        try:
            found = operator.index(value)
        except TypeError:
            raise refuse_type(subject, name, "a whole number", value) from None
    if not -_INT32 <= found < _INT32:
        raise refuse(subject, name, f"{name} must be a number of 32 bits", str(found))
    return found


_READERS = {bool: _read_bool, int: _read_int, float: _read_float}
