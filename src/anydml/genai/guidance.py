"""Guidance: answers that follow a JSON schema, a regular expression or a grammar, by llguidance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import show
from anydml.genai.chat_template import need
from anydml.genai.search import LOWEST
from anydml.genai.tokenizer import JsonCoder, Tokenizer
from anydml.onnxruntime.ort_errors import refuse

if TYPE_CHECKING:
    from anydml.genai.generator import Guidance
    from anydml.genai.model import Model
    from anydml.genai.search_options import SearchOptions

    Array = np.ndarray[Any, Any]


class Guide:
    """What each sequence may go on with."""

    def __init__(self, model: Model, guidance: Guidance, options: SearchOptions) -> None:
        self._library = need("llguidance", "a guidance")
        if options.num_beams > 1:
            raise refuse("Generator", "num_beams", "a guidance takes no beams", str(options.num_beams))
        coder = Tokenizer(model).coder
        if not isinstance(coder, JsonCoder):
            rule = "a guidance needs the folder's tokenizer.json"
            raise refuse("Generator", "guidance", rule, way_out="save the tokenizer anew, as a fast one")
        self._bits = need("llguidance.numpy", "a guidance")
        ends = model.config.eos_token_ids
        size = max(model.vocab_size, coder.held.get_vocab_size())
        self._tokenizer = self._library.LLTokenizer(coder.held.to_str(), n_vocab=size, eos_token=ends)
        self._vocab_size, self._end = model.vocab_size, ends[0]
        self._grammar = self._read(guidance)
        self._forces = guidance.forces and options.rows == 1
        self._rows = options.rows
        self.reset()

    def _read(self, guidance: Guidance) -> str:
        matcher = self._library.LLMatcher
        makers = {
            "json_schema": matcher.grammar_from_json_schema,
            "regex": matcher.grammar_from_regex,
            "lark_grammar": matcher.grammar_from_lark,
        }
        try:
            found: str = makers[guidance.kind](guidance.text)
            fault = matcher.validate_grammar(found, self._tokenizer)
        except ValueError as error:
            fault = str(error)
        if fault:
            rule = f"the {guidance.kind} cannot be followed ({show(fault, 400)})"
            raise refuse("Generator", "guidance", rule)
        return found

    def reset(self) -> None:
        """Begin anew."""
        self._matchers = [self._library.LLMatcher(self._tokenizer, self._grammar) for _ in range(self._rows)]
        self._forced: list[int] = []

    def mask(self, logits: Array) -> None:
        """Make what may not follow impossible."""
        masks = self._bits.allocate_token_bitmask(self._rows, self._tokenizer.vocab_size)
        for row, matcher in enumerate(self._matchers):
            if matcher.is_stopped():
                logits[row, np.arange(logits.shape[1]) != self._end] = LOWEST
                continue
            self._bits.fill_next_token_bitmask(matcher, masks, row)
            allowed = np.unpackbits(masks[row].view(np.uint8), bitorder="little")[: self._vocab_size]
            logits[row, allowed == 0] = LOWEST

    def take(self, tokens: Array) -> None:
        """Go on by the tokens that were chosen."""
        for matcher, token in zip(self._matchers, tokens.tolist(), strict=True):
            if matcher.is_stopped():
                continue
            if not matcher.consume_token(token):
                rule = f"the guidance does not take token {token} ({matcher.get_error()})"
                raise refuse("Generator", "guidance", rule)
        if self._forces and not self._matchers[0].is_stopped():
            self._forced = list(self._matchers[0].compute_ff_tokens())

    def forced(self) -> list[int]:
        """The tokens that must follow, each once."""
        found, self._forced = self._forced, []
        for token in found:
            self._matchers[0].consume_token(token)
        return found
