"""Config: a folder's genai_config.json, with overlays, and the execution providers that are to run its models."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import fields
from pathlib import Path, PureWindowsPath
from typing import Any

from anydml.core.enum_parsing import suggest
from anydml.core.errors import Fault, ModelFileError, show
from anydml.core.files import read_plain
from anydml.genai.search_options import SearchOptions
from anydml.genai.tensors import read_path
from anydml.onnxruntime.ort_errors import InvalidGraph, NoSuchFile, refuse, refuse_type, renamed

FILE = "genai_config.json"
_LARGEST = 2**24
"""Bytes of a text file of a folder: a configuration, a template."""
_SECTIONS = ("model", "search", "speculative", "engine")
PROVIDERS = {"cpu": "CPU", "cuda": "CUDA", "dml": "Dml", "webgpu": "WebGpu"}
"""Providers with a device here, and how ONNX Runtime's names of them begin."""
_NUMBERED = ("bos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id", "vocab_size", "context_length")
_DEFAULTS: dict[str, dict[str, str]] = {
    "decoder.inputs": {
        "input_ids": "input_ids",
        "inputs_embeds": "inputs_embeds",
        "attention_mask": "attention_mask",
        "position_ids": "position_ids",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
        "past_conv_names": "past_conv.%d",
        "past_sequence_length": "past_sequence_length",
        "current_sequence_length": "current_sequence_length",
        "total_sequence_length": "total_sequence_length",
        "cache_indirection": "cache_indirection",
        "encoder_hidden_states": "encoder_hidden_states",
    },
    "decoder.outputs": {
        "logits": "logits",
        "present_key_names": "present.%d.key",
        "present_value_names": "present.%d.value",
        "present_conv_names": "present_conv.%d",
    },
    "vision.inputs": {
        "pixel_values": "pixel_values",
        "image_sizes": "image_sizes",
        "image_grid_thw": "image_grid_thw",
    },
    "vision.outputs": {"image_features": "image_features"},
    "embedding.inputs": {"input_ids": "input_ids", "image_features": "image_features"},
    "embedding.outputs": {"inputs_embeds": "inputs_embeds"},
    "encoder.inputs": {"audio_features": "audio_features"},
    "encoder.outputs": {
        "encoder_hidden_states": "encoder_hidden_states",
        "cross_present_key_names": "present_key_cross_%d",
        "cross_present_value_names": "present_value_cross_%d",
    },
}
"""Names of inputs and outputs where the configuration has none, by the part of the model."""


def provider_name(given: str) -> str:
    """GenAI's short name of a provider: `cuda` of `CUDAExecutionProvider`; others stay as they are."""
    plain = given.removesuffix("ExecutionProvider").lower()
    return plain if plain in PROVIDERS else given


def read_text(path: Path, what: str = "") -> str:
    """A text file of a folder."""
    try:
        return read_plain(path, _LARGEST).decode()
    except UnicodeDecodeError as error:
        raise InvalidGraph(str(path), Fault(field=what, rule=f"the file must be UTF-8 ({error.reason})")) from None
    except ModelFileError as error:
        if path.exists():
            raise renamed(error) from error.__cause__
        way_out = f"a folder of ONNX Runtime GenAI has one beside its {FILE}" if path.name != FILE else _way_out(path)
        fault = Fault(field="", rule=f"there is no file {show(str(path))}", way_out=way_out)
        raise NoSuchFile(path.name, [fault]) from error


def _way_out(path: Path) -> str:
    if not path.parent.is_dir():
        return "give the path of a folder that holds one"
    inner = sorted(found.parent for found in path.parent.glob(f"*/{FILE}"))
    return f"there is one in {show(str(inner[0]))}" if inner else "onnxruntime_genai.models.builder makes such a folder"


def read_json(path: Path) -> Any:
    """What a JSON file of a folder says."""
    return _parse(read_text(path), str(path))


def _parse(text: str, subject: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidGraph(subject, Fault(field="json", rule=f"the text must be JSON ({error})")) from None


class Config:
    """A folder's configuration, to be changed before `Model` loads it: `Config(folder)`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise refuse_type("Config", "path", "the path of a folder", path)
        self.folder = read_path("Config", "path", path)
        """Where its files lie."""
        self.data: dict[str, Any] = {}
        """What the file and the overlays say."""
        self.model_data: dict[str, bytes] = {}
        """Models that are given as bytes, by the names of their files."""
        self.options: dict[str, dict[str, str]] = {}
        """The options of providers."""
        self.providers: list[str] = []
        """The execution providers, the preferred one first; the CPU's runs where there is none."""
        file = self.folder / FILE
        self._merge(_check(read_json(file), str(file)), str(file))
        if "model" not in self.data:
            raise _wrong(str(file), "model", "there must be a section 'model'")

    @classmethod
    def from_package_ep(cls, config_path: str, ep: str) -> Config:
        """Refused: a package of several variants; a variant's own folder loads."""
        rule = f"model packages are not read here ({show(config_path)}, {show(ep)})"
        raise refuse("Config", "config_path", rule, way_out="give the folder of one variant")

    def overlay(self, json_text: str) -> None:
        """Put further JSON over the file's."""
        if not isinstance(json_text, str):
            raise refuse_type("Config", "overlay", "JSON text", json_text)
        self._merge(_check(_parse(json_text, "overlay"), "overlay"), "overlay")

    def _merge(self, given: dict[str, Any], subject: str) -> None:
        merged = _over(copy.deepcopy(self.data), given)
        _search(merged.get("search", {}), subject)
        listed = _at(given, "model", "decoder", "session_options", "provider_options") or []
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise _wrong(subject, "provider_options", "provider_options must be a list of objects, one for a provider")
        for name, own in ((name, own) for one in listed for name, own in one.items()):
            if not isinstance(own, dict):
                raise _wrong(subject, "provider_options", f"the options of provider {show(name)} must be an object")
            self.append_provider(name)
            self.options.setdefault(provider_name(name), {}).update(
                {key: value for key, value in own.items() if isinstance(value, str)}
            )
        self.data = merged

    # Providers

    def clear_providers(self) -> None:
        """Leave no provider: the CPU runs the model unless others are appended."""
        self.providers.clear()

    def append_provider(self, name: str) -> None:
        """Append a provider, by GenAI's name or ONNX Runtime's: `cuda`, `CUDAExecutionProvider`."""
        self.set_provider_option(name, "", "")

    def set_provider_option(self, name: str, option: str, value: str) -> None:
        """Set an option of a provider, which is appended where it is not there."""
        for field, given in (("provider", name), ("option", option), ("value", value)):
            if not isinstance(given, str):
                raise refuse_type("Config", field, "a string", given)
        if (short := provider_name(name)) not in self.providers:
            self.providers.append(short)
        if option:
            self.options.setdefault(short, {})[option] = value

    def set_decoder_provider_options_hardware_device_type(self, provider: str, kind: str) -> None:
        """Taken: cpu, gpu or npu; a provider has one kind of device here."""
        if not isinstance(kind, str) or kind.lower() not in ("cpu", "gpu", "npu"):
            raise refuse("Config", "hardware_device_type", "hardware_device_type must be cpu, gpu or npu", show(kind))
        self._filter(provider, "hardware_device_type", kind)

    def set_decoder_provider_options_hardware_device_id(self, provider: str, number: int) -> None:
        """Taken; the provider option device_id chooses a device here."""
        self._filter(provider, "hardware_device_id", number)

    def set_decoder_provider_options_hardware_vendor_id(self, provider: str, number: int) -> None:
        """Taken; the provider option device_id chooses a device here."""
        self._filter(provider, "hardware_vendor_id", number)

    def clear_decoder_provider_options_hardware_device_type(self, provider: str) -> None:
        """Taken."""
        self._filter(provider, "hardware_device_type", None)

    def clear_decoder_provider_options_hardware_device_id(self, provider: str) -> None:
        """Taken."""
        self._filter(provider, "hardware_device_id", None)

    def clear_decoder_provider_options_hardware_vendor_id(self, provider: str) -> None:
        """Taken."""
        self._filter(provider, "hardware_vendor_id", None)

    def _filter(self, provider: str, field: str, value: object) -> None:
        if not isinstance(provider, str):
            raise refuse_type("Config", "provider", "a string", provider)
        if field.endswith("_id") and value is not None and (not isinstance(value, int) or value < 0):
            raise refuse_type("Config", field, "a number from 0 on", value)

    # Models in memory

    def add_model_data(self, model_filename: str, data: Any) -> None:
        """Give a model's bytes in place of its file."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise refuse_type("Config", "data", "bytes, or a buffer of them", data)
        if not isinstance(model_filename, str):
            raise refuse_type("Config", "model_filename", "a string", model_filename)
        self.model_data[model_filename] = bytes(data)

    def remove_model_data(self, model_filename: str) -> None:
        """Take the bytes back; a model that was loaded of them stays."""
        self.model_data.pop(model_filename, None)

    # What it says

    def section(self, *names: str) -> dict[str, Any]:
        """A part of the configuration; an empty one where it has none."""
        found = _at(self.data, *names)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise _wrong(str(self.folder / FILE), ".".join(names), f"{'.'.join(names)} must be an object")
        return found

    @property
    def type(self) -> str:
        """The family of the model: llama, phi3."""
        return str(self.section("model").get("type", ""))

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number of the section `model`, or of its decoder: `decoder.head_size`."""
        *path, last = name.split(".")
        found = self.section("model", *path).get(last, default)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if not isinstance(found, int) or isinstance(found, bool):
            rule = f"model.{name} must be a whole number{', and is not there' if found is None else ''}"
            raise _wrong(str(self.folder / FILE), f"model.{name}", rule, found)
        return found

    @property
    def eos_token_ids(self) -> list[int]:
        """The tokens that end a sequence."""
        found = self.section("model").get("eos_token_id", None)
        several = found if isinstance(found, list) else [self.number("pad_token_id", 0) if found is None else found]
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in several):
            rule = "eos_token_id must be a whole number, or a list of them"
            raise _wrong(str(self.folder / FILE), "model.eos_token_id", rule, found)
        return several or [self.number("pad_token_id", 0)]

    def names(self, which: str, part: str = "decoder") -> dict[str, str]:
        """The names of `inputs` or `outputs` of a part of the model."""
        given = self.section("model", part, which)
        return {**_DEFAULTS[f"{part}.{which}"], **{name: str(own) for name, own in given.items()}}

    @property
    def search(self) -> SearchOptions:
        """The search options that a generator begins with."""
        found = _search(self.section("search"), str(self.folder / FILE))
        found.max_length = found.max_length or self.number("context_length")
        return found

    def path(self, name: str, field: str) -> Path:
        """The path of a file that the configuration names, which must lie in the folder."""
        given = PureWindowsPath(name)  # takes both separators, and knows C: for what it is
        if given.drive or given.root or ".." in given.parts:
            rule = f"{field} must be a path inside of the folder"
            raise _wrong(str(self.folder / FILE), field, rule, name, "copy the file into the folder")
        return self.folder / name.replace("\\", "/")

    @property
    def tokenizer_folder(self) -> Path:
        """Where the tokenizer's files lie."""
        return self.path(str(self.section("model").get("tokenizer_dir", "")), "model.tokenizer_dir")

    def __repr__(self) -> str:
        return f"Config({str(self.folder)!r}, providers={self.providers or ['cpu']})"


def _wrong(subject: str, field: str, rule: str, found: object = None, way_out: str = "") -> InvalidGraph:
    shown = "" if found is None else show(found)
    return InvalidGraph(subject, Fault(field=field, rule=rule, value=found, found=shown, way_out=way_out))


def _at(data: Any, *names: str) -> Any:
    for name in names:
        if not isinstance(data, dict) or name not in data:
            return None
        data = data[name]
    return data


def _over(under: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """JSON over other JSON: objects are joined, anything else is replaced."""
    for name, value in given.items():
        own = under.get(name)
        under[name] = _over(own, value) if isinstance(own, dict) and isinstance(value, dict) else copy.deepcopy(value)
    return under


def _check(data: Any, subject: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(subject, "", "the file must hold an object", data)
    for name, value in data.items():
        if name not in _SECTIONS and isinstance(value, (dict, list)):
            way_out = suggest(name, _SECTIONS) or f"there are {', '.join(_SECTIONS)}"
            raise _wrong(subject, name, f"there is no section {show(name)}", way_out=way_out)
    model = data.get("model", {})
    if not isinstance(model, dict):
        raise _wrong(subject, "model", "model must be an object", model)
    for name in _NUMBERED:
        if name in model and (not isinstance(model[name], (int, float)) or isinstance(model[name], bool)):
            raise _wrong(subject, f"model.{name}", f"model.{name} must be a number", model[name])
    return data


def _search(given: Any, subject: str) -> SearchOptions:
    found = SearchOptions()
    if not isinstance(given, dict):
        raise _wrong(subject, "search", "search must be an object", given)
    for name, value in given.items():
        if value is not None:
            found.set(name, value, subject)
    return found


SEARCH_NAMES = [field.name for field in fields(SearchOptions)]
