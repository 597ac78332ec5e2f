"""An encoder of sound: what a decoder attends to beside its own tokens."""

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
