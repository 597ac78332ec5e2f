"""MultiModalProcessor: prompts, images and sounds to what a model's generator is given, and its tokens back to text."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import Fault, UnsupportedError, show
from anydml.genai.audio import FeatureExtractor
from anydml.genai.encoders import QWEN
from anydml.genai.images import ImageProcessor
from anydml.genai.media import Audios, Images
from anydml.genai.model import Loaded, Model
from anydml.genai.tensors import NamedTensors, as_array
from anydml.genai.tokenizer import Tokenizer, TokenizerStream
from anydml.onnxruntime.ort_errors import refuse, refuse_type, renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    def mark(self, number: int) -> str:
        """What stands in a prompt for a picture, by its number from 1 on; nothing where the model takes none."""
        return self._process.mark.format(number=number)

    def decode(self, tokens: Any) -> str:
        """The text of tokens; those of pictures have none."""
        given = np.asarray(as_array(tokens)).reshape(-1)
        return self._tokenizer.decode(given[given >= 0] if given.dtype.kind in "iu" else given)

    def create_stream(self) -> TokenizerStream:
        """A stream that gives the text of one token after another."""
        return self._tokenizer.create_stream()


class WhisperProcessor:
    """Of speech: the logarithm of its power in each band of the mel scale, and the prompt's tokens."""

    mark = ""

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


class VisionProcessor(ABC):
    """Of pictures: their pixels, and a prompt's tokens with as many for each picture as it has features."""

    mark = ""
    """What stands in a prompt for a picture."""

    def __init__(self, model: Model, tokenizer: Tokenizer) -> None:
        self._model, self._tokenizer = model, tokenizer
        file = str(model.config.section("model", "vision").get("config_filename", "processor_config.json"))
        self._transform = ImageProcessor(model.config.path(file, "model.vision.config_filename"))
        self._dtype = model.parts["vision"].types.get(model.config.names("inputs", "vision")["pixel_values"])

    def __call__(self, prompts: list[str], images: Images | None, audios: Audios | None) -> dict[str, Array]:
        """`input_ids`, and what the vision model takes."""
        if audios is not None:
            raise refuse("MultiModalProcessor", "audios", "a model of pictures takes no sound")
        if len(prompts) > 1:
            way_out = "a generator for each prompt"
            raise refuse("MultiModalProcessor", "prompt", "there must be one prompt", str(len(prompts)), way_out)
        made = self._transform(images.held) if images is not None else []
        return self._told(prompts[0] if prompts else "", made)

    @abstractmethod
    def _told(self, prompt: str, made: list[tuple[Array, ...]]) -> dict[str, Array]:
        """The inputs for a prompt and what was made of its pictures."""

    def _pixels(self, made: list[tuple[Array, ...]]) -> Array:
        """Pictures of one size, [count, ...]."""
        if len({one[0].shape for one in made}) > 1:
            rule = "pictures of one prompt must have pixels of the same shape"
            raise refuse("MultiModalProcessor", "images", rule, str([list(one[0].shape) for one in made]))
        return np.stack([one[0] for one in made]).astype(self._dtype)

    def _outputs(self, made: list[tuple[Array, ...]], count: int, name: str) -> None:
        """Refuse a processor that ends with another family's operation."""
        if made and len(made[0]) != count:
            rule = f"the last operation of a processor of type {show(self._model.type)} must be {name}"
            raise refuse("MultiModalProcessor", "processor.transforms", rule)

    @staticmethod
    def _counted(found: int, wanted: int, mark: str) -> None:
        if found != wanted:
            way_out = "write one where each picture belongs"
            given = f"{found} for {wanted} pictures"
            raise refuse("MultiModalProcessor", "prompt", f"there must be a {mark} for each picture", given, way_out)


class PhiProcessor(VisionProcessor):
    """Of Phi-3 vision: a picture's tokens are its number, below 0, where the prompt says <|image_1|>."""

    mark = "<|image_{number}|>\n"

    def _told(self, prompt: str, made: list[tuple[Array, ...]]) -> dict[str, Array]:
        self._outputs(made, 3, "Phi3ImageTransform")
        numbers = [int(number) for number in re.findall(r"<\|image_(\d+)\|>", prompt)]
        self._counted(len(set(numbers)), len(made), "<|image_1|>, <|image_2|>, ...,")
        if numbers and not 1 <= min(numbers) <= max(numbers) <= len(made):
            rule = f"pictures of a prompt must be <|image_1|> to <|image_{len(made)}|>"
            raise refuse("MultiModalProcessor", "prompt", rule, str(numbers))
        tokens: list[Array] = []
        for place, text in enumerate(re.split(r"<\|image_\d+\|>", prompt)):
            tokens.append(self._tokenizer.encode(text))
            if place < len(numbers):
                tokens.append(np.full(made[numbers[place] - 1][2].item(), -numbers[place], np.int32))
        found = {"input_ids": np.concatenate(tokens)[None].astype(np.int32)}
        if made:
            found["pixel_values"] = self._pixels(made)
            found["image_sizes"] = np.stack([one[1] for one in made]).astype(np.int64)
            found["num_image_tokens"] = np.stack([one[2] for one in made]).astype(np.int64)
        return found


class GemmaProcessor(VisionProcessor):
    """Of Gemma 3: 256 tokens for each picture."""

    mark = "<start_of_image>"
    _soft, _end, _count = "<image_soft_token>", "<end_of_image>", 256

    def _told(self, prompt: str, made: list[tuple[Array, ...]]) -> dict[str, Array]:
        self._outputs(made, 1, "Permute3D")
        text = prompt or " ".join([self.mark] * len(made))
        self._counted(text.count(self.mark), len(made), self.mark)
        whole = f"\n\n{self.mark}{self._soft * self._count}{self._end}\n\n"
        tokens = self._tokenizer.encode(text.replace(self.mark, whole))[None]
        found = {"input_ids": tokens}
        if made:
            soft = self._tokenizer.to_token_id(self._soft)
            found["pixel_values"] = self._pixels(made)
            found["token_type_ids"] = (tokens == soft).astype(np.int32)
            found["num_image_tokens"] = np.array([self._count])
        return found


class QwenProcessor(VisionProcessor):
    """Of Qwen 2.5 VL and its kin: a token for each square of merged patches."""

    _begin, _pad, _end = "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"
    mark = f"{_begin}{_pad}{_end}"

    def _told(self, prompt: str, made: list[tuple[Array, ...]]) -> dict[str, Array]:
        self._outputs(made, 2, "PatchImage")
        text = prompt or " ".join([f"{self._begin} {self._end}"] * len(made))
        self._counted(text.count(self._begin), len(made), self._begin)
        merge = self._model.config.number("vision.spatial_merge_size", 2)
        grids = [one[1].reshape(3) for one in made]
        counts = [int(grid.prod()) // merge**2 for grid in grids]
        left = iter(counts)
        pattern = f"{re.escape(self._begin)}(?:.*?{re.escape(self._end)})?"
        if made:
            text = re.sub(pattern, lambda _: f"{self._begin}{self._pad * next(left)}{self._end}", text, flags=re.DOTALL)
        found = {"input_ids": self._tokenizer.encode(text)[None], "num_image_tokens": np.array([sum(counts)])}
        if made:
            found["pixel_values"] = np.concatenate([one[0] for one in made]).astype(self._dtype)
            found["image_grid_thw"] = np.stack(grids).astype(np.int64)
        return found


class StreamingProcessor:
    """Refused: a processor of speech as it is spoken."""

    def __init__(self, *_given: Any) -> None:
        rule = "speech is not taken as it is spoken (nemotron_speech, parakeet_tdt)"
        way_out = "a Whisper model takes 30 seconds at a time"
        raise renamed(UnsupportedError(type(self).__name__, Fault(field="model.type", rule=rule, way_out=way_out)))


_KINDS: dict[str, type[WhisperProcessor | VisionProcessor]] = {
    "whisper": WhisperProcessor,
    "phi3v": PhiProcessor,
    "gemma3": GemmaProcessor,
    **dict.fromkeys(QWEN, QwenProcessor),
}
"""What does the work, by the family of the model."""
