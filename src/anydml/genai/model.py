"""Model: a folder's decoder as a session, on the device that the configuration's providers name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from anydml.core.errors import Fault, UnsupportedError, show
from anydml.core.files import Files
from anydml.core.late_imports import import_alone
from anydml.core.memory import HOST
from anydml.genai.config import FILE, PROVIDERS, Config
from anydml.genai.last_rows import ROWS, with_rows
from anydml.onnx.protobuf import ELEMENT_NUMBERS
from anydml.onnx.read import Source, read_model
from anydml.onnxruntime.inference import InferenceSession
from anydml.onnxruntime.options import GraphOptimizationLevel, SessionOptions
from anydml.onnxruntime.ort_errors import InvalidGraph, NoSuchFile, refuse, refuse_type, renamed, told
from anydml.onnxruntime.ort_value import OrtValue
from anydml.onnxruntime.type_names import dtype_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from anydml.genai.processor import MultiModalProcessor, StreamingProcessor
    from anydml.onnx.ir import Graph
    from anydml.onnxruntime.binding import IOBinding
    from anydml.onnxruntime.description import NodeArg

_NEEDS = {
    "vision of another kind": ("mistral3", "qwen3_5", "qwen3_5_moe"),
    "video": ("videochat_flash_qwen",),
    "vision and speech": ("gemma4", "phi4mm"),
    "speech as it is spoken": ("nemotron_speech", "parakeet_tdt"),
    "an encoder": ("marian-ssru",),
    "a pipeline of several models": ("decoder-pipeline",),
}
_SEEING = ("fara", "gemma3", "phi3v", "qwen2_5_vl", "qwen3_vl")
_PARTS = {"whisper": ("encoder",), **dict.fromkeys(_SEEING, ("vision", "embedding"))}
"""The models that a family has beside its decoder."""
_ELSEWHERE = {family: needed for needed, families in _NEEDS.items() for family in families}
"""Families that this version does not run, and what they need."""
_ATTENTIONS = {"MultiHeadAttention", "Attention", "PagedAttention", "SparseAttention", "DecoderMaskedSelfAttention"}
"""Nodes that read a mask, or lengths of their own."""
_STATES = "past_conv_names", "past_recurrent_names"
_TOLD = {"cpu": "CPU", "cuda": "CUDA", "webgpu": "WebGPU"}
"""GenAI's word for a device."""
_NAMES = {"dml": "DML"}
_LACKED = {
    "bfloat16": "precision fp16, or int4 without use_cuda_bf16",
    "float8": "kv_cache_quant_scheme int8_per_tensor or int8_per_channel",
}
"""Types of the builder's models that DirectML lacks, and what to build instead."""
_OF_LENGTHS = {"Cast", "Gather", "Squeeze", "Unsqueeze", "Reshape", "Slice", "Identity"}
"""Nodes that hand a length on."""
_TOTAL = 6
"""The place of GroupQueryAttention's input `total_sequence_length`."""
_SLACK = 16
"""Rows of a cache of a window beyond it, where the configuration has none: GenAI's on a CPU."""


@dataclass(frozen=True)
class Cache:
    """One tensor that a step hands to the next: keys or values of a layer, or a state of fixed size."""

    past: str
    """The input."""
    present: str
    """The output."""
    shape: tuple[int | None, ...]
    """Its sizes, None for those of rows and lengths."""
    dtype: np.dtype[Any]
    axis: int | None
    """Along which it grows; None for a state of fixed size."""
    rows: int = 0
    """The axis of sequences."""
    window: int = 0
    """Where it keeps the last tokens alone, as many as are seen; 0 for one that keeps all."""


class Loaded:
    """A model that a process has loaded, or what goes with one: neither copied nor pickled."""

    _instead = ""
    """What to do in place of a copy."""

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled; {self._instead}")


class Part:
    """A model beside the decoder: an encoder of sound, a vision model, embeddings."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session
        """What runs it."""
        self.inputs = {arg.name: arg for arg in session.get_inputs()}
        self.outputs = {arg.name: arg for arg in session.get_outputs()}
        self.types = {name: dtype_of(number_of_type(arg)) for name, arg in self.inputs.items()}
        """The elements that each input takes."""

    def run(self, fed: Mapping[str, Any], binding: IOBinding | None = None) -> dict[str, Any]:
        """Its outputs, in the device's memory. With a binding of one's own they last until its next run."""
        binding = binding or self.session.io_binding()
        for name, value in fed.items():
            if binding.inputs.get(name) is not value:
                binding.bind_ortvalue_input(name, OrtValue(value))
        if not binding.outputs:
            kind, _, number = self.session.device.name.partition(":")
            place = HOST if self.session.device.engine.memory == HOST else kind
            for name in self.outputs:
                binding.bind_output(name, place, int(number or 0))
        self.session.run_with_iobinding(binding)
        return binding.results()


class Model(Loaded):
    """A folder's language model: `Model(folder)`, or `Model(config)`."""

    _instead = "share it, for threads may have generators of their own, or make another of its folder"

    def __init__(self, config: Config | str | os.PathLike[str]) -> None:
        if not isinstance(config, (Config, str, os.PathLike)):
            raise refuse_type("Model", "config", "a Config, or the path of a folder", config)
        self.config = config if isinstance(config, Config) else Config(config)
        """What it was loaded with."""
        self._file = str(self.config.folder / FILE)
        if (kind := _ELSEWHERE.get(self.config.type)) is not None:
            rule = f"models of type {show(self.config.type)} are not run here: they need {kind}"
            way_out = "its decoder alone runs by anydml.onnxruntime"
            raise renamed(UnsupportedError(self._file, Fault(field="model.type", rule=rule, way_out=way_out)))
        self.session = self._session("decoder", self._as_decoder(self._read("decoder", "model.onnx")))
        """The decoder's session."""
        self.inputs = {arg.name: arg for arg in self.session.get_inputs()}
        self.takes_rows = self.inputs.pop(ROWS, None) is not None
        """Whether a step gives logits of the rows alone that it is asked for: see `last_rows.py`."""
        self.outputs = {arg.name: arg for arg in self.session.get_outputs()}
        self._check_types()
        self.vocab_size = self.config.number("vocab_size")
        self.context_length = self.config.number("context_length")
        self.caches = self._find_caches()
        """The tensors that a step hands to the next."""
        self._refuse_pipelines()
        self.parts = {part: Part(self._session(part, self._read(part))) for part in _PARTS.get(self.type, ())}
        """The models beside the decoder: an encoder, or a vision model and embeddings."""
        self._check()

    @property
    def type(self) -> str:
        """Its family, as the configuration says: llama, phi3."""
        return self.config.type

    @property
    def device_type(self) -> str:
        """What it runs on, in GenAI's words: CPU, CUDA, WebGPU, DML."""
        chosen = next(iter(self.config.providers), "cpu")
        kind = self.session.device.name.partition(":")[0]
        return _NAMES[chosen] if chosen in _NAMES and kind == "cuda" else _TOLD.get(kind, kind.upper())

    def create_multimodal_processor(self) -> MultiModalProcessor:
        """What makes inputs of prompts, images and sound."""
        import_alone("anydml.genai.processor")
        from anydml.genai.processor import MultiModalProcessor  # which takes models

        return MultiModalProcessor(self)

    def create_streaming_processor(self) -> StreamingProcessor:
        """Refused: speech is not taken as it is spoken."""
        import_alone("anydml.genai.processor")
        from anydml.genai.processor import StreamingProcessor  # as above

        return StreamingProcessor(self)

    # Loading

    def _read(self, part: str, default: str = "") -> Source:
        """The ONNX model of a part."""
        field = f"model.{part}.filename"
        name = str(self.config.section("model", part).get("filename", default))
        if not name:
            way_out = f"the folder's {part} is named there, as its decoder is"
            raise self._wrong(field, f"a model of type {show(self.type)} must have {field}", way_out)
        path = self.config.path(name, field)
        if name in self.config.model_data:
            with told():
                return self._from_bytes(name)
        if not path.is_file():
            models = sorted(found.name for found in self.config.folder.glob("*.onnx"))
            way_out = f"the folder has {', '.join(map(show, models))}" if models else "the folder has no ONNX model"
            rule = f"there is no file {show(name)}, which {field} names"
            raise NoSuchFile(self._file, [Fault(field=field, rule=rule, way_out=way_out)])
        with told():
            return read_model(path, is_kept=True)

    def _refuse_pipelines(self) -> None:
        for part in ("decoder", "vision"):
            field = f"model.{part}.pipeline"
            if self.type in _PARTS and self.config.section("model", part).get("pipeline"):
                rule = f"{field} is not run here: it needs several models in turn"
                way_out = "give the folder that is made for cpu or cuda, of one model for each part"
                raise renamed(UnsupportedError(self._file, Fault(field=field, rule=rule, way_out=way_out)))

    def _as_decoder(self, source: Source) -> Source:
        """A decoder with the input that says which rows to give logits of."""
        kinds = [node.op_type for node in source.model.graph.node]
        self.knows_lengths = "GroupQueryAttention" in kinds and not _ATTENTIONS.intersection(kinds)
        """Whether attention takes the length of each sequence, so that each may have its own."""
        names = self.config.names("inputs")
        self.takes_longer_masks = self.knows_lengths and _counts_alone(source.model.graph, names["attention_mask"])
        """Whether a step computes the same if its mask goes on with zeros: see `Decoder`."""
        states = tuple(names[name].partition("%d")[0] for name in _STATES if names.get(name))
        if not any(info.name.startswith(states) for info in source.model.graph.input):  # which no step goes back to
            source = with_rows(source, self.config.names("outputs")["logits"])
        self._windows = {
            name: int(node.value("local_window_size", -1))
            for node in source.model.graph.node
            if node.op_type == "GroupQueryAttention" and node.value("sliding_window_cache", 0)
            for name in node.input[3:5]
        }
        return source

    def _session(self, part: str, source: Source) -> InferenceSession:
        return InferenceSession(source, self._options(part), providers=self._providers())

    def _from_bytes(self, name: str) -> Source:
        """A model of bytes, whose external data lies in the folder."""
        source = read_model(self.config.model_data[name], is_kept=True)
        return replace(source, name=name, beside=replace(source.beside, folder=Files(self.config.folder / name)))

    def _providers(self) -> list[tuple[str, dict[str, str]]]:
        found = []
        for name in self.config.providers:
            if name not in PROVIDERS:
                way_out = f"there are {', '.join(PROVIDERS)}: config.clear_providers(), config.append_provider('cpu')"
                rule = f"provider {show(name)} has no device here"
                raise refuse(self._file, "provider_options", rule, way_out=way_out)
            own = self.config.options.get(name, {})
            options = {"device_id": own["device_id"]} if "device_id" in own else {}
            found.append((f"{PROVIDERS[name]}ExecutionProvider", options))
        return found or [("CPUExecutionProvider", {})]

    def _options(self, part: str) -> SessionOptions:
        options = SessionOptions()
        known = SessionOptions.fields()
        has_own = "session_options" in self.config.section("model", part)
        given = self.config.section("model", part if has_own else "decoder", "session_options")
        for name, value in given.items():
            if name == "provider_options" or value is None:
                continue
            if name == "log_id":
                options.logid = str(value)
            elif name == "custom_ops_library":
                options.register_custom_ops_library(str(value))
            elif name == "enable_profiling":
                options.enable_profiling, options.profile_file_prefix = True, str(value)
            elif name == "graph_optimization_level":
                levels = GraphOptimizationLevel.__members__
                if value not in levels:
                    rule = f"graph_optimization_level must be one of {', '.join(levels)}"
                    raise refuse(self._file, "graph_optimization_level", rule, show(value))
                options.graph_optimization_level = levels[value]
            elif name in known:
                setattr(options, name, value)
            elif isinstance(value, str):
                options.add_session_config_entry(name, value)
        return options

    # What it hands from step to step

    def _find_caches(self) -> list[Cache]:
        ins, outs = self.config.names("inputs"), self.config.names("outputs")
        found: list[Cache] = []
        for past, present, is_kept in (
            ("past_key_names", "present_key_names", False),
            ("past_value_names", "present_value_names", False),
            ("past_names", "present_names", False),
            ("past_conv_names", "present_conv_names", True),
            ("past_recurrent_names", "present_recurrent_names", True),
        ):
            if "%d" not in (pattern := ins.get(past, "")):
                continue
            match = re.compile(re.escape(pattern).replace("%d", r"(\d+)"))
            layers = sorted(int(hit[1]) for name in self.inputs if (hit := match.fullmatch(name)))
            for layer in layers:
                name, output = pattern.replace("%d", str(layer)), outs.get(present, "").replace("%d", str(layer))
                if output not in self.outputs:
                    rule = f"the model has input {show(name)}, and no output {show(output)} for what follows it"
                    raise self._wrong(f"model.decoder.outputs.{present}", rule, self._some(self.outputs))
                found.append(self._cache(name, output, is_state=is_kept))
        return found

    def _cache(self, past: str, present: str, *, is_state: bool) -> Cache:
        arg = self.inputs[past]
        shape = tuple(size if isinstance(size, int) and size > 0 else None for size in arg.shape or ())
        rank = len(shape)
        if rank not in (2, 3, 4, 5):
            raise self._wrong(past, f"cache {show(past)} must have 3 to 5 dimensions", found=str(rank))
        rows = 1 if rank == 5 else 0
        axis = None if is_state else rank - 2
        if not is_state:
            heads = self.config.section("model", "decoder").get("num_key_value_heads")
            size = self.config.section("model", "decoder").get("head_size")
            each = 2 if dtype_of(number_of_type(arg)) == "uint8" else 1  # numbers of 4 bits lie two to a byte
            last = size // each if isinstance(size, int) else size
            known = (*shape[: rank - 3], shape[rank - 3] or heads, shape[rank - 2], shape[-1] or last)
            whole = known[-1] and known[-1] * each
            for field, declared, own in (("num_key_value_heads", heads, known[-3]), ("head_size", size, whole)):
                is_varied = self.type.startswith("gemma4") or len({str(i.shape) for i in self._likes(past)}) > 1
                if rank == 4 and declared is not None and own != declared and not is_varied:
                    rule = f"{field} must be {own}, as input {show(past)} of the model has it"
                    raise self._wrong(f"model.decoder.{field}", rule, found=str(declared))
            shape = known
        return Cache(past, present, shape, dtype_of(number_of_type(arg)), axis, rows, self._windows.get(past, 0))

    def window_rows(self, window: int, chunk_size: int) -> int:
        """The rows of a cache of a window: some more than it sees, so that it is moved seldom."""
        found = self.config.section("model", "decoder", "sliding_window").get("cache_slack", 0)
        slack = found if isinstance(found, int) and found > 0 else _SLACK
        return min(window + max(slack, chunk_size - 1), max(window, self.context_length))

    def _likes(self, past: str) -> list[NodeArg]:
        """The inputs of all layers that are like one."""
        pattern = re.sub(r"\d+", r"\\d+", re.escape(past).replace(r"\.", "."))
        return [arg for name, arg in self.inputs.items() if re.fullmatch(pattern, name)]

    def _check_types(self) -> None:
        """Refuse a model that computes in a type that DirectML lacks, or whose caches are for GenAI's Engine."""
        if (table := self.config.names("inputs").get("block_table", "block_table")) in self.inputs:
            rule = f"input {show(table)} is of caches in blocks, which GenAI's Engine runs and Generator does not"
            fault = Fault(field=table, rule=rule, way_out="build the folder without use_paged_attention")
            raise renamed(UnsupportedError(str(self.config.folder), fault))
        for arg in (*self.inputs.values(), *self.outputs.values()):
            kind = str(arg.type)[len("tensor(") : -1]
            if (instead := next((to for of, to in _LACKED.items() if kind.startswith(of)), None)) is not None:
                rule = f"{show(arg.name)} is of {kind.upper()}, which DirectML lacks"
                fault = Fault(field=arg.name, rule=rule, way_out=f"build the folder with {instead}")
                raise renamed(UnsupportedError(str(self.config.folder), fault))

    def _check(self) -> None:
        ins, outs = self.config.names("inputs"), self.config.names("outputs")
        taken = "inputs_embeds" if "embedding" in self.parts else "input_ids"
        if ins[taken] not in self.inputs:
            rule = f"the model has no input {show(ins[taken])}"
            raise self._wrong(f"model.decoder.inputs.{taken}", rule, self._some(self.inputs))
        if outs["logits"] not in self.outputs:
            rule = f"the model has no output {show(outs['logits'])}"
            raise self._wrong("model.decoder.outputs.logits", rule, self._some(self.outputs))
        size = (self.outputs[outs["logits"]].shape or [None])[-1]
        if isinstance(size, int) and size > 0 and size < self.vocab_size:
            rule = f"vocab_size must be at most {size}, as output {show(outs['logits'])} has it"
            raise self._wrong("model.vocab_size", rule, found=str(self.vocab_size))
        if self.context_length < 1:
            rule = "context_length must be 1 or more"
            raise self._wrong("model.context_length", rule, found=str(self.context_length))
        for token in self.config.eos_token_ids:
            if not 0 <= token < self.vocab_size:
                rule = f"eos_token_id must be below vocab_size, {self.vocab_size}"
                raise self._wrong("model.eos_token_id", rule, found=str(token))

    def _wrong(self, field: str, rule: str, way_out: str = "", found: str = "") -> InvalidGraph:
        return InvalidGraph(self._file, Fault(field=field, rule=rule, found=found, way_out=way_out))

    @staticmethod
    def _some(args: dict[str, Any]) -> str:
        return f"it has {', '.join(map(show, list(args)[:6]))}{' and others' if len(args) > 6 else ''}"

    def __repr__(self) -> str:
        return f"Model({str(self.config.folder)!r}, type={self.type!r}, device={self.session.device.name!r})"


def _counts_alone(graph: Graph, mask: str) -> bool:
    """Whether all that a graph knows of a mask is how many ones it has, and its length as `total_sequence_length`.

    A rotary table that is chosen by that length would be chosen early by a longer mask.
    """
    masks, lengths = {mask}, set[str]()
    for node in graph.node:  # each after those that it reads
        read = [name for name in node.reads if name in masks or name in lengths]
        if not read:
            continue
        if len(read) > 1 or read[0] not in node.input:
            return False
        is_mask, place = read[0] in masks, node.input.index(read[0])
        if is_mask and node.op_type in ("Cast", "Shape"):
            (lengths if node.op_type == "Shape" else masks).update(node.makes)
        elif not is_mask and node.op_type in _OF_LENGTHS:
            lengths.update(node.makes)
        elif not (node.op_type == "ReduceSum" if is_mask else (node.op_type, place) == ("GroupQueryAttention", _TOTAL)):
            return False
    return not (masks | lengths).intersection(info.name for info in graph.output)


def number_of_type(arg: NodeArg) -> int:
    """ONNX's number of an input's elements."""
    return int(ELEMENT_NUMBERS[str(arg.type)[len("tensor(") : -1].upper()])
