"""Encoders beside a decoder: of pictures, whose features take the places of their tokens among embeddings, and of
sound, which a decoder attends to beside its own tokens.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import show
from anydml.genai.tensors import as_array
from anydml.onnxruntime.ort_errors import refuse
from anydml.onnxruntime.ort_value import on_host, placed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.genai.model import Model

    Array = np.ndarray[Any, Any]

QWEN = ("fara", "qwen2_5_vl", "qwen3_vl")
"""Families whose tokens have three positions: of time, row and column."""
_UNUSED = ("num_image_tokens", "token_type_ids")
"""What a processor tells beside the inputs of the vision model."""


class Embedder:
    """The part in a generator of a vision model and of embeddings: tokens in, what the decoder takes for them out."""

    def __init__(self, model: Model, batch: int) -> None:
        self._model, self._batch = model, batch
        self._vision, self._embedding = model.parts["vision"], model.parts["embedding"]
        self._memory = model.session.device.engine.memory
        vision, embedding = model.config.names("inputs", "vision"), model.config.names("inputs", "embedding")
        self._pixels, self._grid = vision["pixel_values"], vision["image_grid_thw"]
        self.wanted = {name: vision[name] for name in ("pixel_values", "image_sizes", "image_grid_thw")}
        """What it takes, by the names of a processor, and the names of the graph."""
        self.wanted |= {name: name for name in (*_UNUSED, *self._vision.inputs)}
        self._ids, self._features = embedding["input_ids"], embedding["image_features"]
        self._feature_output = model.config.names("outputs", "vision")["image_features"]
        self._output = model.config.names("outputs", "embedding")["inputs_embeds"]
        self._check_names()
        self._absent = self._none()
        self._binding = self._embedding.session.io_binding()
        """For text."""
        self._waiting: tuple[Any, Array | None] | None = None
        """Features, and the rows and columns of patches, of pictures whose tokens have not come."""
        self._seen: dict[int, tuple[Array, Any, Array | None]] = {}
        """The same with their tokens, by how many tokens were before: for when they are taken in again."""
        self.fed: dict[str, Any] = {}
        self.found: dict[str, Any] = {}
        self._places = np.zeros((3, 0), np.int64)
        """The positions of tokens up to the last picture's prompt, [3, n]."""

    def _check_names(self) -> None:
        for part, held, name in (
            ("vision.inputs.pixel_values", self._vision.inputs, self._pixels),
            ("vision.outputs.image_features", self._vision.outputs, self._feature_output),
            ("embedding.inputs.input_ids", self._embedding.inputs, self._ids),
            ("embedding.inputs.image_features", self._embedding.inputs, self._features),
            ("embedding.outputs.inputs_embeds", self._embedding.outputs, self._output),
        ):
            if name not in held:
                section, kind, _ = part.split(".")
                rule = f"the {section} model has no {kind[:-1]} {show(name)}"
                raise refuse("Model", f"model.{part}", rule, way_out=f"it has {', '.join(map(show, list(held)[:6]))}")

    # Pictures in

    def take(self, inputs: Mapping[str, Any]) -> None:
        """Take pictures, by the names of a processor or of the graph: their tokens are the next that are embedded."""
        inputs = {self.wanted.get(name, name): value for name, value in inputs.items()}
        if self._batch > 1:
            way_out = "set_search_options(batch_size=1), and a generator for each prompt"
            raise refuse("Generator", "batch_size", "pictures go with one prompt alone", str(self._batch), way_out)
        given = {name: np.asarray(as_array(value)) for name, value in inputs.items() if name in self._vision.inputs}
        if self._pixels not in given:
            self._waiting = None
            return
        fed = {name: self._read(name, value) for name, value in given.items()}
        if missing := [name for name in self._vision.inputs if name not in fed]:
            way_out = "generator.set_inputs(processor(prompt, images=images)) gives it"
            raise refuse("Generator", missing[0], f"the vision model needs {show(missing[0])}", "none", way_out)
        found = self._run_vision(fed)
        self._waiting = found[self._feature_output], fed.get(self._grid)
        self.fed, self.found = fed, found

    def _read(self, name: str, value: Array) -> Array:
        wanted = self._vision.inputs[name].shape or ()
        is_like = len(wanted) == value.ndim and all(
            not isinstance(size, int) or size < 1 or size == own for size, own in zip(wanted, value.shape, strict=False)
        )
        if not is_like or value.dtype.kind not in "biuf":
            rule = f"{name} must be of shape {[size if isinstance(size, int) else 'any' for size in wanted]}"
            raise refuse("Generator", name, rule, f"{value.dtype} of {list(value.shape)}")
        return np.ascontiguousarray(value, self._vision.types[name])

    def _run_vision(self, fed: Mapping[str, Array]) -> dict[str, Any]:
        """Features of pictures: of Qwen's one by one, where sizes differ or the model takes one alone."""
        grid = fed.get(self._grid)
        if self._model.type not in QWEN or grid is None or len(grid) < 2:
            return self._vision.run(fed)
        size = (self._vision.inputs[self._grid].shape or [None])[0]
        if not (isinstance(size, int) and size > 0) and (grid == grid[0]).all():
            return self._vision.run(fed)
        ends = np.cumsum(grid.prod(1))
        several = []
        for place, end in enumerate(ends):
            start = end - grid[place].prod()
            own = {**fed, self._pixels: fed[self._pixels][start:end], self._grid: grid[place : place + 1]}
            several.append(np.asarray(on_host(self._vision.run(own)[self._feature_output])))
        return {self._feature_output: placed(np.concatenate(several), self._memory)}

    # Tokens in

    def embed(self, tokens: Array, start: int) -> Any:
        """What the decoder takes for tokens, [rows, n], which follow so many: [rows, n, width]."""
        rows = len(tokens)
        features = self._features_of(tokens, start)
        is_prompt = features is not None
        taken = tokens[:1] if is_prompt else tokens
        fed = {**self._absent, self._ids: np.ascontiguousarray(taken, self._embedding.types[self._ids])}
        if is_prompt:
            fed[self._features] = features
        found = self._embedding.run(fed, None if is_prompt else self._binding)[self._output]
        if rows > 1 and is_prompt:  # beams begin alike
            found = placed(np.repeat(np.asarray(on_host(found)), rows, 0), self._memory)
        return found

    def _features_of(self, tokens: Array, start: int) -> Any:
        """The features of pictures among tokens."""
        if self._waiting is not None:
            self._seen = {place: seen for place, seen in self._seen.items() if place < start}
            self._seen[start] = tokens[0].copy(), *self._waiting
            self._waiting = None
        own = self._seen.get(start)
        if own is None or not np.array_equal(tokens[0, : len(own[0])], own[0]):
            return None
        return own[1]

    def _none(self) -> dict[str, Array]:
        """Features of no picture, and of no sound."""
        found = {}
        for name, arg in self._embedding.inputs.items():
            if name != self._ids:
                sizes = [size if isinstance(size, int) and size > 0 else None for size in arg.shape or ()]
                width = sizes[-1] or self._model.config.number("decoder.hidden_size")
                shape = [0, width] if len(sizes) < 3 else [sizes[0] or 1, 0, width]
                found[name] = np.zeros(shape, self._embedding.types[name])
        return found

    # Positions

    def places(self, tokens: Array, start: int) -> Array:
        """The positions of time, row and column of a sequence's tokens, [3, n], which follow so many.

        A picture's tokens have one time, and the rows and columns of its merged patches; text after it goes on from the
        largest of these.
        """
        self._places = self._places[:, :start]
        first = self._next_place(start)
        own = self._seen.get(start)
        grid = own[2] if own is not None and np.array_equal(tokens[: len(own[0])], own[0]) else None
        found: Array
        if grid is None:
            found = np.broadcast_to(first + np.arange(len(tokens)), (3, len(tokens)))
            return found
        image = self._model.config.number("image_token_id")
        begin = self._model.config.number("vision_start_token_id")
        merge = self._model.config.number("vision.spatial_merge_size", 2)
        marks = np.nonzero((tokens[:-1] == begin) & (tokens[1:] == image))[0] + 1
        if len(marks) != len(grid):
            rule = f"there must be vision_start_token_id and image_token_id for each of {len(grid)} pictures"
            raise refuse("Generator", "input_ids", rule, str(len(marks)))
        parts, at = [], 0
        for mark, (time, rows, columns) in zip(marks.tolist(), grid.tolist(), strict=True):
            parts.append(np.broadcast_to(first + np.arange(mark - at), (3, mark - at)))
            first += mark - at
            sizes = time, rows // merge, columns // merge
            indices = np.indices(sizes).reshape(3, -1)
            indices[0] = 0  # a picture has no duration
            if mark + indices.shape[1] > len(tokens):
                rule = f"a picture of {rows} x {columns} patches must have {indices.shape[1]} tokens"
                raise refuse("Generator", "input_ids", rule, str(len(tokens) - mark))
            parts.append(first + indices)
            first += int(indices.max()) + 1
            at = mark + indices.shape[1]
        parts.append(np.broadcast_to(first + np.arange(len(tokens) - at), (3, len(tokens) - at)))
        found = np.concatenate(parts, 1)
        known = self._places
        if missing := start - known.shape[1]:  # text between pictures
            text = self._next_place(known.shape[1]) + np.arange(missing)
            known = np.concatenate([known, np.broadcast_to(text, (3, missing))], 1)
        self._places = np.concatenate([known, found], 1)
        return found

    def _next_place(self, start: int) -> int:
        """The position of the token after so many, all text behind the last picture's prompt."""
        count = int(self._places.shape[1])
        return int(self._places.max()) + 1 + start - count if count else start


class SpeechEncoder:
    """The encoder's part in a generator: run once, its keys and values are inputs of every step of the decoder."""

    def __init__(self, model: Model, batch: int, beams: int) -> None:
        self._model, self._part = model, model.parts["encoder"]
        self._batch, self._beams = batch, beams
        self._memory = model.session.device.engine.memory
        ins = model.config.names("inputs", "encoder")
        self._features = ins["audio_features"]
        self.wanted = {"audio_features": self._features}
        """What it takes, by the names of a processor, and the names of the graph."""
        self.given = self._pairs()
        """What it gives: inputs of the decoder, and the outputs that they are."""
        self.fed: dict[str, Any] = {}
        self.found: dict[str, Any] = {}

    def _pairs(self) -> dict[str, str]:
        decoder, encoder = self._model.config.names("inputs"), self._model.config.names("outputs", "encoder")
        found = {}
        for past, present in (
            ("cross_past_key_names", "cross_present_key_names"),
            ("cross_past_value_names", "cross_present_value_names"),
        ):
            match = re.compile(re.escape(decoder.get(past, "")).replace("%d", r"(\d+)"))
            for name in self._model.inputs:
                if (hit := match.fullmatch(name)) and hit.groups():
                    found[name] = encoder[present].replace("%d", hit[1])
        if (states := decoder["encoder_hidden_states"]) in self._model.inputs:
            found[states] = encoder["encoder_hidden_states"]
        for name, output in found.items():
            if output not in self._part.outputs:
                rule = f"the decoder has input {show(name)}, and the encoder no output {show(output)} for it"
                way_out = f"it has {', '.join(map(show, list(self._part.outputs)[:6]))}"
                raise refuse("Generator", "model.encoder.outputs", rule, way_out=way_out)
        return found

    def take(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run it for the features of sounds; gives inputs of the decoder."""
        if (given := inputs.get(self._features)) is None:
            return {}
        features = np.asarray(as_array(given))
        self._check(features)
        fed = {self._features: np.ascontiguousarray(features, self._part.types[self._features])}
        found = self._part.run(fed)
        self.fed, self.found = fed, found
        return {name: self._repeated(found[output]) for name, output in self.given.items()}

    def _repeated(self, value: Any) -> Any:
        """What belongs to a sequence, for each of its beams."""
        if self._beams == 1:
            return value
        return placed(np.repeat(np.asarray(on_host(value)), self._beams, 0), self._memory)

    def _check(self, features: Array) -> None:
        wanted = list(self._part.inputs[self._features].shape or ())
        wanted[:1] = [self._batch]
        pairs = zip(wanted, features.shape, strict=False)
        is_like = features.ndim == len(wanted) and all(
            not isinstance(size, int) or size < 1 or size == own for size, own in pairs
        )
        if not is_like or features.dtype.kind != "f":
            rule = f"audio_features must be floats of shape {[s if isinstance(s, int) else 'any' for s in wanted]}"
            way_out = "set_search_options(batch_size=...) says how many sequences there are"
            raise refuse("Generator", "audio_features", rule, f"{features.dtype} of {list(features.shape)}", way_out)
