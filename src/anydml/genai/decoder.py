"""A decoder's steps: tokens in, logits out, with what a step hands to the next kept on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.device_memory import memories
from anydml.core.errors import Fault, show
from anydml.core.memory import HOST
from anydml.genai.last_rows import ROWS
from anydml.genai.log import log_arrays, tells
from anydml.genai.model import number_of_type
from anydml.onnxruntime.ort_errors import Fail, refuse
from anydml.onnxruntime.ort_value import OrtValue, on_host, placed
from anydml.onnxruntime.type_names import dtype_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.genai.model import Cache, Model
    from anydml.onnxruntime.binding import IOBinding

    Array = np.ndarray[Any, Any]


_PRESET = ("num_logits_to_keep", "onnx::Neg_67")
"""Inputs of some exports, in which 0 asks for the logits of every token."""


class Decoder:
    """The state of sequences that are decoded together: their caches, masks and positions.

    A cache that is shared has room for the longest sequence and is written in place; another grows, each step's
    output being the next one's input.
    """

    def __init__(self, model: Model, batch: int, beams: int, max_length: int, *, is_shared: bool) -> None:
        self.model = model
        self.length = 0
        """The tokens of each sequence that were taken in."""
        self.is_shared = is_shared and all(cache.axis is not None for cache in model.caches)
        self.extra: dict[str, Any] = {}
        """Inputs that a program sets itself."""
        self._batch, self._beams, self._max_length = batch, beams, max_length
        self._memory = model.session.device.engine.memory
        ins, outs = model.config.names("inputs"), model.config.names("outputs")
        self._ids, self._logits = ins["input_ids"], outs["logits"]
        self._mask_name, self._position_name = ins["attention_mask"], ins["position_ids"]
        self._past_name = ins["past_sequence_length"]
        self._total_names = ins["current_sequence_length"], ins["total_sequence_length"]
        self._types = {name: dtype_of(number_of_type(arg)) for name, arg in model.inputs.items()}
        self._mask = np.zeros((batch, 0), np.int64)
        self._positions = np.zeros((batch, 1), np.int64)
        self._held: dict[str, Any] = {}
        self._binding = model.session.io_binding()
        self._bindings: dict[int, IOBinding] = {}
        """For steps of so many of the rows."""
        self._last_from = 0
        """The length before the last step."""
        self._fed: dict[str, Any] = {}
        self._found: dict[str, Any] = {}
        self._reset()

    @property
    def rows(self) -> int:
        """The sequences."""
        return self._batch * self._beams

    def _reset(self) -> None:
        self.length = 0
        self._mask = np.zeros((self._batch, 0), np.int64)
        if self.is_shared and self._held:
            return  # what is beyond the length is not read
        self._held = {cache.past: self._empty(cache) for cache in self.model.caches}

    def _empty(self, cache: Cache) -> Any:
        shape = list(cache.shape)
        shape[cache.rows] = self.rows
        if cache.axis is not None:
            shape[cache.axis] = self._max_length if self.is_shared else 0
        if any(size is None for size in shape):
            raise refuse("Generator", cache.past, f"the sizes of cache {show(cache.past)} are not known", str(shape))
        return placed(np.zeros([int(size or 0) for size in shape], cache.dtype), self._memory)

    # A step

    def run(self, tokens: Array, beams: Array | None = None) -> Array:
        """Take in tokens of every sequence, [rows, n]; gives the logits after the last of each, [rows, vocab_size].

        `beams` are the sequences that each goes on from. Nothing has changed where this raises.
        """
        new = tokens.shape[1]
        if beams is not None and self.length and not np.array_equal(beams, np.arange(self.rows)):
            self._held = {cache.past: self._reordered(cache, beams) for cache in self.model.caches}
        mask, positions, last = self._masked(tokens[:: self._beams])
        fed = {self._ids: tokens, self._mask_name: np.repeat(mask, self._beams, 0)}
        fed[self._position_name] = np.repeat(positions, self._beams, 0)
        for name in (self._past_name, *self._total_names):
            if name in self.model.inputs:
                count = self.length + (0 if name == self._past_name else new)
                fed[name] = np.full(self._ones(name), count)
        fed = {name: np.ascontiguousarray(fed[name], self._types[name]) for name in fed if name in self.model.inputs}
        fed.update(self.extra)
        if self.model.takes_rows:
            fed[ROWS] = (np.arange(self.rows) * new + np.repeat(last, self._beams))[:, None]
        missing = self._missing(fed)
        fed |= {name: np.zeros(self._ones(name), self._types[name]) for name in _PRESET if name in missing}
        if missing := self._missing(fed):
            way_out = f"generator.set_model_input({show(missing[0])}, array) gives it"
            rule = f"the model needs input {show(missing[0])}, which nobody gave"
            raise refuse("Generator", missing[0], rule, way_out=way_out)
        if tells("model_input_values"):
            log_arrays("model_input_values", fed)
        found = self._run(fed, self._held, self._binding)
        if not self.is_shared:
            self._check_growth(found, self.length + new)
        for label in ("model_output_shapes", "model_output_values"):
            if tells(label):
                log_arrays(label, {name: on_host(value) for name, value in found.items()})
        logits = self._last_logits(found[self._logits], np.repeat(last, self._beams))
        self._fed, self._found = fed, found
        if not self.is_shared:
            self._held = {cache.past: found[cache.present] for cache in self.model.caches}
        self._last_from = self.length
        self.length += new
        self._mask, self._positions = mask, positions[np.arange(self._batch), last][:, None]
        return logits

    def run_rows(self, tokens: Array, lengths: Array) -> Array:
        """A token for each of the first rows, which have so many tokens each; gives their logits.

        For shared caches of models whose attention takes the length of each sequence.
        """
        rows = len(tokens)
        total = int(lengths.max()) + 1
        fed = {self._ids: tokens, self._mask_name: np.arange(total) <= lengths[:, None]}
        fed[self._position_name] = lengths[:, None]
        fed = {name: np.ascontiguousarray(fed[name], self._types[name]) for name in fed if name in self.model.inputs}
        if self.model.takes_rows:
            fed[ROWS] = np.arange(rows)[:, None]
        held = {cache.past: self._held[cache.past][:rows] for cache in self.model.caches}
        if rows not in self._bindings:
            self._bindings[rows] = self.model.session.io_binding()
        found = self._run({**fed, **self.extra}, held, self._bindings[rows])
        return self._last_logits(found[self._logits], np.zeros(rows, np.int64))

    def copy_row(self, source: Decoder, row: int, from_row: int = 0) -> None:
        """Take over the caches of another decoder's row, or of one's own."""
        for cache in self.model.caches:
            given, own = source._held[cache.past], self._held[cache.past]
            place = (slice(None),) * (cache.axis or 0) + (slice(given.shape[cache.axis or 0]),)
            target, part = own[row : row + 1][place], given[from_row : from_row + 1]
            if isinstance(target, np.ndarray):
                target[...] = part
            elif hasattr(target, "copy_from"):
                target.copy_from(part.numpy())
            else:
                target.copy_(part)

    def _run(self, fed: Mapping[str, Any], held: Mapping[str, Any], binding: IOBinding) -> dict[str, Any]:
        for name, value in {**held, **fed}.items():
            if binding.inputs.get(name) is not value:  # a shared cache is bound once
                binding.bind_ortvalue_input(name, OrtValue(value))
        if not binding.outputs:
            caches = {cache.present: cache.past for cache in self.model.caches}
            kind, _, number = self.model.session.device.name.partition(":")
            for name in self.model.outputs:
                if self.is_shared and name in caches:
                    binding.bind_ortvalue_output(name, OrtValue(held[caches[name]]))
                else:
                    binding.bind_output(name, kind if self._memory != HOST else HOST, int(number or 0))
        self.model.session.run_with_iobinding(binding)
        return dict(zip(binding.outputs, (value.held for value in binding.get_outputs()), strict=True))

    def _check_growth(self, found: Mapping[str, Any], length: int) -> None:
        """Refuse a model that says otherwise than its configuration."""
        for cache in self.model.caches:
            grown = None if cache.axis is None else found[cache.present].shape[cache.axis]
            if grown is not None and grown != length:
                rule = f"output {show(cache.present)} must have grown to {length} tokens"
                way_out = "set past_present_share_buffer where the model writes its caches in place"
                fault = Fault(field=cache.present, rule=rule, found=str(grown), way_out=way_out)
                raise Fail("Generator", fault)

    def _masked(self, tokens: Array) -> tuple[Array, Array, Array]:
        """The mask of all tokens, the positions of new ones, and which of them is each sequence's last."""
        new = tokens.shape[1]
        last = np.full(self._batch, new - 1)
        if not self.length and self._batch > 1:  # shorter sequences end in padding
            is_token = tokens != self.model.config.number("pad_token_id", 0)
            ends = np.where(is_token.any(1), new - np.argmax(is_token[:, ::-1], 1), 0)
            mask = (np.arange(new) < ends[:, None]).astype(np.int64)
            last = np.maximum(ends - 1, 0)
            return mask, np.arange(new) * mask, last
        mask = np.concatenate([self._mask, np.ones((self._batch, new), np.int64)], 1)
        if self._batch == 1:
            return mask, np.arange(self.length, self.length + new)[None], last
        return mask, self._positions + 1 + np.arange(new), last

    def _missing(self, fed: Mapping[str, Any]) -> list[str]:
        return [name for name in self.model.inputs if name not in fed and name not in self._held]

    def _ones(self, name: str) -> list[int]:
        return [1] * len(self.model.inputs[name].shape or ())

    def _last_logits(self, found: Any, last: Array) -> Array:
        """The logits after each sequence's last token, as FLOAT32 on the host; models may give these alone."""
        if len(found.shape) == 2:
            found = found.reshape(found.shape[0], 1, found.shape[1])
        if found.shape[1] > 1:
            if (last == last[0]).all():
                place = int(last[0])
                found = found[:, place : place + 1]
            else:
                rows = [on_host(found[row : row + 1, place : place + 1]) for row, place in enumerate(last.tolist())]
                found = np.concatenate(rows)
        logits = np.asarray(on_host(found)).reshape(len(last), -1)[:, : self.model.vocab_size]
        return np.array(logits, np.float32)

    def _reordered(self, cache: Cache, beams: Array) -> Any:
        """A cache whose sequences are others': a beam may go on from its neighbour."""
        held = self._held[cache.past]
        if self._memory in memories:
            return placed(np.take(held.numpy(), beams, cache.rows), self._memory)
        if isinstance(held, np.ndarray):
            return np.take(held, beams, cache.rows)
        return held.index_select(cache.rows, placed(beams.astype(np.int64), self._memory))

    # Going back

    def rewind(self, length: int) -> None:
        """Forget the tokens after the first so many."""
        if length == self.length:
            return
        if length == 0:
            self._reset()
            return
        for cache in self.model.caches:
            if cache.axis is None:
                rule = f"a model with states of fixed size, such as {show(cache.past)}, goes back to 0 alone"
                raise refuse("Generator", "rewind_to", rule, str(length), "rewind_to(0)")
        if not self.is_shared:
            self._held = {cache.past: _cut(self._held[cache.past], cache, length) for cache in self.model.caches}
        if length < self._last_from and not self.is_shared:
            self._found = {}
        self.length, self._mask = length, self._mask[:, :length]

    # For those who look

    def input(self, name: str) -> Array | None:
        """An input of the last step."""
        return _copied(self._fed.get(name, self._held.get(name)))

    def output(self, name: str) -> Array | None:
        """An output of the last step."""
        if name == self._logits and self.model.takes_rows and name in self._found:
            ids = self._fed[self._ids]
            if self._found[name].shape[1] < ids.shape[1]:
                self._found = {**self._found, name: self._all_logits(ids.shape)}
        return _copied(self._found.get(name))

    def _all_logits(self, shape: tuple[int, ...]) -> Any:
        """The logits after every token of the last step, which is run again."""
        before = self._last_from
        held = self._held
        if not self.is_shared:
            held = {cache.past: _cut(held[cache.past], cache, before) for cache in self.model.caches}
        fed = {**self._fed, ROWS: np.arange(shape[0] * shape[1]).reshape(shape)}
        return self._run(fed, held, self._binding)[self._logits]


def _cut(held: Any, cache: Cache, length: int) -> Any:
    part = held[(slice(None),) * (cache.axis or 0) + (slice(length),)]
    if isinstance(part, np.ndarray):
        return np.ascontiguousarray(part)
    return part.contiguous() if hasattr(part, "contiguous") else part.copy()


def _copied(value: Any) -> Array | None:
    return None if value is None else np.array(on_host(value))
