"""A decoder's steps: tokens in, logits out, with what a step hands to the next kept on the device."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from anydml.arrays.cuda import load_torch
from anydml.core.device_memory import memories
from anydml.core.errors import Fault, printable, show
from anydml.core.memory import HOST, is_cuda
from anydml.genai.encoders import Embedder
from anydml.genai.last_rows import ROWS, rows_at
from anydml.genai.log import log_arrays, tells
from anydml.genai.model import number_of_type
from anydml.onnxruntime.ort_errors import Fail, refuse
from anydml.onnxruntime.ort_value import OrtValue, on_host, placed
from anydml.onnxruntime.type_names import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.genai.model import Cache, Model
    from anydml.onnxruntime.binding import IOBinding

    Array = np.ndarray[Any, Any]


T = TypeVar("T")

_PRESET = ("num_logits_to_keep", "onnx::Neg_67")
"""Inputs of some exports, in which 0 asks for the logits of every token."""


_SHORTEST = 256
"""Of a mask that goes on with zeros: each length has launches of its own."""


class Decoder:
    """The state of sequences that are decoded together: their caches, masks and positions.

    A cache that is shared has room for the longest sequence and is written in place, as is one that keeps a window;
    another grows, each step's output being the next one's input. With shared caches a step of one token is the same
    launches on the same arrays as the one before, which a GPU replays: its mask goes on with zeros.
    """

    def __init__(
        self, model: Model, batch: int, beams: int, max_length: int, *, is_shared: bool, chunk_size: int = 0
    ) -> None:
        self.model = model
        self.length = 0
        """The tokens of each sequence that were taken in."""
        self._is_shared, self._chunk_size = is_shared, chunk_size
        self.embedder = Embedder(model, batch) if "embedding" in model.parts else None
        """What makes embeddings of tokens, where the model takes these."""
        self.extra: dict[str, Any] = {}
        """Inputs that a program sets itself."""
        self._batch, self._beams, self._max_length = batch, beams, max_length
        self._memory = model.session.device.engine.memory
        ins, outs = model.config.names("inputs"), model.config.names("outputs")
        self._ids, self._embeds, self._logits = ins["input_ids"], ins["inputs_embeds"], outs["logits"]
        self._mask_name, self._position_name = ins["attention_mask"], ins["position_ids"]
        self._past_name = ins["past_sequence_length"]
        self._total_names = ins["current_sequence_length"], ins["total_sequence_length"]
        self._types = {name: dtype_of(number_of_type(arg)) for name, arg in model.inputs.items()}
        self._mask = np.zeros((batch, 0), np.int64)
        self._positions = np.zeros((batch, 1), np.int64)
        self._one_row = rows_at(np.zeros((batch * beams, 1)), 1)
        self._held: dict[str, Any] = {}
        self._binding = model.session.io_binding()
        self._bindings: dict[int, IOBinding] = {}
        """For steps of so many of the rows."""
        self._last_from = 0
        """The length before the last step."""
        self._windows = [cache for cache in model.caches if cache.window]
        self._shared = [cache for cache in model.caches if self._in_place(cache)]
        self._growing = [cache for cache in model.caches if not self._in_place(cache)]
        self._before: dict[str, Any] = {}
        """What caches of windows held before the last step, where that took in several tokens after others."""
        self._fed: dict[str, Any] = {}
        self._places: dict[tuple[Any, ...], _Places] = {}
        """By names and shapes, the arrays of a device that steps of one token are given: what is bound stays bound."""
        self._found: dict[str, Any] = {}
        self._reset()

    @property
    def rows(self) -> int:
        """The sequences."""
        return self._batch * self._beams

    def _reset(self) -> None:
        self.length = 0
        self._mask = np.zeros((self._batch, 0), np.int64)
        if not self._is_shared or self._windows:
            self._found = {}
        self._held = {
            cache.past: self._held[cache.past]  # what is beyond the length is not read
            if self._held and self._in_place(cache)
            else self._empty(cache)
            for cache in self.model.caches
        }

    def _in_place(self, cache: Cache) -> bool:
        """Whether steps write a cache where it lies."""
        return cache.axis is not None and (self._is_shared or cache.window > 0)

    def _empty(self, cache: Cache) -> Any:
        shape = list(cache.shape)
        shape[cache.rows] = self.rows
        if cache.axis is not None:
            whole = self._max_length if self._is_shared else 0
            shape[cache.axis] = self.model.window_rows(cache.window, self._chunk_size) if cache.window else whole
        if any(size is None for size in shape):
            raise refuse("Generator", cache.past, f"the sizes of cache {show(cache.past)} are not known", str(shape))
        return placed(np.zeros([int(size or 0) for size in shape], cache.dtype), self._memory)

    # A step

    def run(self, tokens: Array, beams: Array | None = None) -> Array:
        """Take in tokens of every sequence, [rows, n]; gives the logits after the last of each, [rows, vocab_size].

        `beams` are the sequences that each goes on from. Nothing has changed where this raises.
        """
        new = tokens.shape[1]
        if not self.length and self._batch > 1 and self._keeps_ends and (counts := self._counts(tokens)).min() < new:
            return self._run_alone(tokens, counts)
        return self._take_in(tokens, beams, self._last_logits)

    @property
    def finds_likeliest(self) -> bool:
        """Whether the likeliest tokens are found where logits are, so that these need not come to the host."""
        return is_cuda(self._memory)

    def likeliest(self, tokens: Array, barred: Sequence[int]) -> tuple[Array, Array]:
        """Take in a token of every sequence: of each the likeliest next one, but for those barred, and the largest of
        all logits. Nothing has changed where this raises.
        """
        return self._take_in(tokens, None, functools.partial(self._likeliest, barred=barred))

    def _take_in(self, tokens: Array, beams: Array | None, read: Callable[[Any, Array], T]) -> T:
        """Take in tokens; gives what is read of the logits and the place of each sequence's last token."""
        new = tokens.shape[1]
        if beams is not None and self.length and not np.array_equal(beams, np.arange(self.rows)):
            self._held = {cache.past: self._reordered(cache, beams) for cache in self.model.caches}
        mask, positions, last = self._masked(tokens[:: self._beams])
        steps = new == 1 and self.length > 0 and self._replays
        fed = {self._ids: tokens, self._mask_name: self._lengthened(self._each(mask), steps=steps)}
        if self._position_name in self.model.inputs:
            fed[self._position_name] = self._turned(self._each(positions))
        embeds = {}
        if self.embedder is not None:
            embeds[self._embeds] = self.embedder.embed(tokens, self.length)
            if self._axes == 3:
                places = self.embedder.places(tokens[0], self.length)
                fed[self._position_name] = np.repeat(places[:, None], self.rows, 1)
        for name in (self._past_name, *self._total_names):
            if name in self.model.inputs:
                count = self.length + (0 if name == self._past_name else new)
                fed[name] = np.full(self._ones(name), count)
        fed = {name: np.ascontiguousarray(fed[name], self._types[name]) for name in fed if name in self.model.inputs}
        fed.update({**self.extra, **embeds})
        if self.model.takes_rows:
            fed[ROWS] = self._one_row if new == 1 else rows_at(self._each(last)[:, None], new)
        if missing := self._missing(fed):
            fed |= {name: np.zeros(self._ones(name), self._types[name]) for name in _PRESET if name in missing}
        if missing and (missing := self._missing(fed)):
            way_out = f"generator.set_model_input({show(missing[0])}, array) gives it"
            rule = f"Missing Input: {printable(missing[0])}: the model needs it, and nobody gave it"
            raise refuse("Generator", missing[0], rule, way_out=way_out)
        if tells("model_input_values"):
            log_arrays("model_input_values", fed)
        keeps = self._windows if self.model.takes_rows and self.length and new > 1 else []
        self._before = {cache.past: placed(np.array(on_host(self._held[cache.past])), self._memory) for cache in keeps}
        found = self._run(fed, self._held, self._stepping(self.rows) if steps else self._binding, steps=steps)
        self._check_growth(found, self.length + new)
        for label in ("model_output_shapes", "model_output_values"):
            if tells(label):
                log_arrays(label, {name: on_host(value) for name, value in found.items()})
        logits = read(found[self._logits], self._each(last))
        self._fed, self._found = fed, found
        self._hand_on(found)
        self._last_from = self.length
        self.length += new
        self._mask, self._positions = mask, positions[np.arange(self._batch), last][:, None]
        return logits

    def _each(self, of_sequences: Array) -> Array:
        """What there is of each sequence, for each of its beams."""
        return of_sequences if self._beams == 1 else np.repeat(of_sequences, self._beams, 0)

    @property
    def _keeps_ends(self) -> bool:
        """Whether something is kept of a sequence's end alone, which padding behind it would be."""
        return any(cache.axis is None or cache.window for cache in self.model.caches)

    def _run_alone(self, tokens: Array, counts: Array) -> Array:
        """Take in sequences of different lengths one by one, each into its row of the caches."""
        logits = []
        for row, count in enumerate(np.repeat(counts, self._beams)):
            own = Decoder(self.model, 1, 1, self._max_length, is_shared=self._is_shared, chunk_size=self._chunk_size)
            own.extra = self.extra
            logits.append(own.run(tokens[row : row + 1, : max(count, 1)]))
            if not row:
                self._held = {cache.past: self._room(cache, tokens.shape[1]) for cache in self.model.caches}
            self.copy_row(own, row)
        self._mask, positions, last = self._masked(tokens[:: self._beams])
        self.length, self._positions = tokens.shape[1], positions[np.arange(self._batch), last][:, None]
        self._fed, self._found = {}, {self._logits: np.stack(logits)}
        return np.concatenate(logits)

    def _room(self, cache: Cache, length: int) -> Any:
        """A cache with room for so many tokens."""
        if self._in_place(cache):
            return self._held[cache.past]
        shape = list(self._empty(cache).shape)
        if cache.axis is not None:
            shape[cache.axis] = length
        return placed(np.zeros(shape, cache.dtype), self._memory)

    def _hand_on(self, found: Mapping[str, Any]) -> None:
        """Let the next step read what this one wrote."""
        for cache in self._growing:
            self._held[cache.past] = found[cache.present]

    def run_rows(self, tokens: Array, lengths: Array) -> Array:
        """A token for each of the first rows, which have so many tokens each; gives their logits.

        For shared caches of models whose attention takes the length of each sequence.
        """
        rows = len(tokens)
        total = int(lengths.max()) + 1
        mask = self._lengthened(np.arange(total) <= lengths[:, None], steps=self._replays)
        fed = {self._ids: tokens, self._mask_name: mask}
        fed[self._position_name] = self._turned(lengths[:, None])
        fed = {name: np.ascontiguousarray(fed[name], self._types[name]) for name in fed if name in self.model.inputs}
        if self.model.takes_rows:
            fed[ROWS] = rows_at(np.zeros((rows, 1)), 1)
        held = {cache.past: self._held[cache.past][:rows] for cache in self.model.caches}
        found = self._run({**fed, **self.extra}, held, self._stepping(rows), steps=self._replays)
        for cache in self.model.caches:
            if cache.axis is None:
                _write(self._held[cache.past][:rows], found[cache.present])
        return self._last_logits(found[self._logits], np.zeros(rows, np.int64))

    @property
    def _replays(self) -> bool:
        """Whether steps of one token are the same but for the numbers in their arrays."""
        is_fixed = self._is_shared and self.model.takes_longer_masks and not self._windows
        return is_fixed and self._memory != HOST and all(cache.axis is not None for cache in self.model.caches)

    def _lengthened(self, mask: Array, *, steps: bool) -> Array:
        """A mask that goes on with zeros, so that the next steps' have the same length."""
        if not steps:
            return mask
        longer = min(max(_SHORTEST, 1 << (mask.shape[1] - 1).bit_length()), self._max_length)
        found = np.zeros((len(mask), max(longer, mask.shape[1])), mask.dtype)
        found[:, : mask.shape[1]] = mask
        return found

    def _stepping(self, rows: int) -> IOBinding:
        """What steps of so many rows are bound by."""
        if rows not in self._bindings:
            self._bindings[rows] = binding = self.model.session.io_binding()
            binding.keeps_layouts = True
        return self._bindings[rows]

    def copy_row(self, source: Decoder, row: int, from_row: int = 0) -> None:
        """Take over the caches of another decoder's row, or of one's own."""
        for cache in self.model.caches:
            given, own = source._held[cache.past], self._held[cache.past]
            place = (slice(None),) * (cache.axis or 0) + (slice(given.shape[cache.axis or 0]),)
            _write(own[row : row + 1][place], given[from_row : from_row + 1])

    def _run(
        self, fed: Mapping[str, Any], held: Mapping[str, Any], binding: IOBinding, *, steps: bool = False
    ) -> dict[str, Any]:
        if steps:
            fed = self._in_their_places(fed)
        bound = binding.inputs
        for values in (held, fed):
            for name, value in values.items():
                if bound.get(name) is not value:  # a shared cache is bound once
                    binding.bind_ortvalue_input(name, OrtValue(value))
        if not binding.outputs:
            kind, _, number = self.model.session.device.name.partition(":")
            for name in self.model.outputs:
                binding.bind_output(name, kind if self._memory != HOST else HOST, int(number or 0))
        for cache in self._shared:
            if binding.outputs[cache.present] is not (value := held[cache.past]):
                binding.bind_ortvalue_output(cache.present, OrtValue(value))
        self.model.session.run_with_iobinding(binding)
        found = binding.results()
        if steps:
            for name, value in found.items():
                if binding.outputs[name] is not value:
                    binding.bind_ortvalue_output(name, OrtValue(value))
        return found

    def _in_their_places(self, fed: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a step, copied to where the last step's were, so that launches stay as they are."""
        key = tuple((name, array.shape) for name, array in fed.items())
        if (kept := self._places.get(key)) is None:
            kept = self._places[key] = _Places(fed, self._memory)
        return kept.take(fed)

    def _check_growth(self, found: Mapping[str, Any], length: int) -> None:
        """Refuse a model that says otherwise than its configuration."""
        for cache in self._growing:
            if cache.axis is None:
                continue
            if (grown := found[cache.present].shape[cache.axis]) != length:
                rule = f"output {show(cache.present)} must have grown to {length} tokens"
                way_out = "set past_present_share_buffer where the model writes its caches in place"
                fault = Fault(field=cache.present, rule=rule, found=str(grown), way_out=way_out)
                raise Fail("Generator", fault)

    def _masked(self, tokens: Array) -> tuple[Array, Array, Array]:
        """The mask of all tokens, the positions of new ones, and which of them is each sequence's last."""
        new = tokens.shape[1]
        last = np.full(self._batch, new - 1)
        if not self.length and self._batch > 1:  # shorter sequences end in padding
            ends = self._counts(tokens)
            mask = (np.arange(new) < ends[:, None]).astype(np.int64)
            last = np.maximum(ends - 1, 0)
            return mask, np.arange(new) * mask, last
        mask = np.concatenate([self._mask, np.ones((self._batch, new), np.int64)], 1)
        if self._batch == 1:
            return mask, np.arange(self.length, self.length + new)[None], last
        return mask, self._positions + 1 + np.arange(new), last

    def _turned(self, positions: Array) -> Array:
        """Positions as the model takes them: three of a token (time, row, column) are alike in text."""
        return np.broadcast_to(positions, (3, *positions.shape)) if self._axes == 3 else positions

    @property
    def _axes(self) -> int:
        arg = self.model.inputs.get(self._position_name)
        return len((arg.shape if arg else None) or ())

    def _counts(self, tokens: Array) -> Array:
        """The tokens of each sequence before its padding."""
        is_token = tokens != self.model.config.number("pad_token_id", 0)
        return np.where(is_token.any(1), tokens.shape[1] - np.argmax(is_token[:, ::-1], 1), 0)

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

    def _likeliest(self, found: Any, last: Array, barred: Sequence[int]) -> tuple[Array, Array]:
        torch = load_torch()
        logits = found.reshape(len(last), -1)[:, : self.model.vocab_size]
        most, likeliest = logits.max(1)
        if barred:
            places = torch.tensor(barred, device=logits.device)
            likeliest = logits.index_fill(1, places, torch.finfo(logits.dtype).min).argmax(1)
        both = on_host(torch.stack([most.double(), likeliest.double()]))  # one copy
        return both[1].astype(np.int32), both[0]

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
        """Forget the tokens after the first so many; all where states of earlier tokens are gone: `length` says it."""
        if length == self.length:
            return
        if length == 0 or any(self._forgets(cache) for cache in self.model.caches):
            self._reset()
            return
        self._held |= {
            cache.past: _cut(self._held[cache.past], cache, length)
            for cache in self.model.caches
            if not self._in_place(cache)
        }
        if length < self._last_from and not self._is_shared:
            self._found = {}
        self.length, self._mask = length, self._mask[:, :length]

    def _forgets(self, cache: Cache) -> bool:
        return cache.axis is None or (cache.window > 0 and self.length > self._held[cache.past].shape[cache.axis])

    # For those who look

    def input(self, name: str) -> Array | None:
        """An input of the last step."""
        return _copied(self._fed.get(name, self._held.get(name)))

    def output(self, name: str) -> Array | None:
        """An output of the last step."""
        if name == self._logits and self.model.takes_rows and name in self._found:
            taken = self._fed.get(self._ids, self._fed.get(self._embeds))
            if taken is not None and self._found[name].shape[1] < taken.shape[1]:
                self._found = {**self._found, name: self._all_logits(tuple(taken.shape[:2]))}
        return _copied(self._found.get(name))

    def _all_logits(self, shape: tuple[int, ...]) -> Any:
        """The logits after every token of the last step, which is run again."""
        held = {
            cache.past: self._held[cache.past]
            if self._in_place(cache)
            else _cut(self._held[cache.past], cache, self._last_from)
            for cache in self.model.caches
        }
        for name, part in self._before.items():
            _write(held[name], part)
        fed = {**self._fed, ROWS: rows_at(np.tile(np.arange(shape[1]), (shape[0], 1)), shape[1])}
        return self._run(fed, held, self._binding)[self._logits]


class _Places:
    """Where a step's inputs lie on a device: those of the host beside one another, to be copied there at once."""

    def __init__(self, fed: Mapping[str, Any], memory: str) -> None:
        self._arrays = {name: placed(array, memory) for name, array in fed.items()}
        self._parts: dict[str, Array] = {}
        self._whole: tuple[Any, Array] | None = None
        own = {name: array for name, array in fed.items() if type(array) is np.ndarray}
        if not is_cuda(memory) or not own:
            return
        ends = list(itertools.accumulate((-(-array.nbytes // 16) * 16 for array in own.values()), initial=0))
        whole = np.zeros(ends[-1], np.uint8)
        there = placed(whole, memory)
        for (name, array), at in zip(own.items(), ends, strict=False):
            place = slice(at, at + array.nbytes)
            self._parts[name] = whole[place].view(array.dtype).reshape(array.shape)
            self._arrays[name] = there[place].view(self._arrays[name].dtype).reshape(array.shape)
        self._whole = there, whole

    def take(self, fed: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays there, with what others hold now."""
        for name, part in self._parts.items():
            part[...] = fed[name]
        if self._whole is not None:
            _write(*self._whole)
        for name, array in fed.items():
            if name not in self._parts and (found := self._arrays[name]) is not array:
                _write(found, array)
        return self._arrays


def _cut(held: Any, cache: Cache, length: int) -> Any:
    part = held[(slice(None),) * (cache.axis or 0) + (slice(length),)]
    if isinstance(part, np.ndarray):
        return np.ascontiguousarray(part)
    return part.contiguous() if hasattr(part, "contiguous") else part.copy()


def _write(target: Any, part: Any) -> None:
    """Copy into a part of a cache."""
    if isinstance(target, np.ndarray):
        target[...] = on_host(part)
    elif hasattr(target, "copy_from"):
        target.copy_from(on_host(part))
    else:
        target.copy_(load_torch().from_numpy(part) if isinstance(part, np.ndarray) else part)


def _copied(value: Any) -> Array | None:
    return None if value is None else np.array(on_host(value))
