"""MultiModalProcessor: prompts, images and sounds to what a model's generator is given, and its tokens back to text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.errors import Fault, UnsupportedError, show
from anydml.genai.audio import FeatureExtractor
from anydml.genai.media import Audios, Images
from anydml.genai.model import Loaded, Model
from anydml.genai.tensors import NamedTensors
from anydml.genai.tokenizer import Tokenizer, TokenizerStream
from anydml.onnxruntime.ort_errors import refuse, refuse_type, renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Array = np.ndarray[Any, Any]


class MultiModalProcessor(Loaded):
    """A model's processor: `model.create_multimodal_processor()`."""

    _instead = "share it, or make another of its model"

    def __init__(self, model: Model) -> None:
        if not isinstance(model, Model):
            raise refuse_type("MultiModalProcessor", "model", "a Model", model)
        if model.type not in _KINDS:
            rule = f"a model of type {show(model.type)} has no processor of images or sound"
            way_out = f"those of type {', '.join(_KINDS)} have; this one's Tokenizer takes its prompts"
            fault = Fault(field="model.type", rule=rule, way_out=way_out)
            raise renamed(UnsupportedError("MultiModalProcessor", fault))
        self._tokenizer = Tokenizer(model)
        self._process = _KINDS[model.type](model, self._tokenizer)

    def __call__(
        self,
        prompt: str | Sequence[str] | None = None,
        *,
        images: Images | None = None,
        audios: Audios | None = None,
    ) -> NamedTensors:
        """The inputs for `generator.set_inputs`."""
        prompts = [prompt] if isinstance(prompt, str) else [] if prompt is None else list(prompt)
        for one in prompts:
            if not isinstance(one, str):
                raise refuse_type("MultiModalProcessor", "prompt", "a string, or a list of them", one)
        for name, given, kind in (("images", images, Images), ("audios", audios, Audios)):
            if given is not None and not isinstance(given, kind):
                raise refuse_type("MultiModalProcessor", name, kind.__name__, given, f"{kind.__name__}.open(path)")
        found = NamedTensors()
        for name, value in self._process(prompts, images, audios).items():
            found[name] = value
        return found

    def decode(self, tokens: Any) -> str:
        """The text of tokens."""
        return self._tokenizer.decode(tokens)

    def create_stream(self) -> TokenizerStream:
        """A stream that gives the text of one token after another."""
        return self._tokenizer.create_stream()


class WhisperProcessor:
    """Of speech: the logarithm of its power in each band of the mel scale, and the prompt's tokens."""

    def __init__(self, model: Model, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        file = str(model.config.section("model", "speech").get("config_filename", "audio_processor_config.json"))
        self._extract = FeatureExtractor(model.config.path(file, "model.speech.config_filename"))
        self._dtype = model.parts["encoder"].types[model.config.names("inputs", "encoder")["audio_features"]]

    def __call__(self, prompts: list[str], images: Images | None, audios: Audios | None) -> dict[str, Array]:
        """`audio_features` and `input_ids`."""
        if images is not None:
            raise refuse("MultiModalProcessor", "images", "a model of speech takes no images")
        if audios is None:
            way_out = "processor(prompt, audios=Audios.open(path))"
            raise refuse("MultiModalProcessor", "audios", "there must be sound", "none", way_out)
        if not prompts or not all(prompts):
            way_out = "give the tokens that begin a transcript: '<|startoftranscript|><|en|><|transcribe|>'"
            raise refuse("MultiModalProcessor", "prompt", "there must be a prompt", "none", way_out)
        if len(prompts) != len(audios):
            found = f"{len(prompts)} prompts and {len(audios)} sounds"
            raise refuse("MultiModalProcessor", "prompt", "there must be a prompt for each sound", found)
        features = self._extract(audios.held).astype(self._dtype)
        return {"audio_features": features, "input_ids": self._tokenizer.encode_batch(prompts).held}


class StreamingProcessor:
    """Refused: a processor of speech as it is spoken."""

    def __init__(self, *_given: Any) -> None:
        rule = "speech is not taken as it is spoken (nemotron_speech, parakeet_tdt)"
        way_out = "a Whisper model takes 30 seconds at a time"
        raise renamed(UnsupportedError(type(self).__name__, Fault(field="model.type", rule=rule, way_out=way_out)))


_KINDS = {"whisper": WhisperProcessor}
"""What does the work, by the family of the model."""
