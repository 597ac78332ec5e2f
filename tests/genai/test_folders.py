"""Folders: what they must hold, how configurations are read and changed, and programs that run unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are made with it")

import anydml.genai as og
from genai_folders import END, WORDS, config, decoder, make_folder
from onnx_models import info, onnx

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SLOW = decoder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "folder", SLOW)


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    data = config()
    change(data)
    (folder / "genai_config.json").write_text(json.dumps(data))
    return folder


def model_of(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return lambda folder: og.Model(str(changed(folder, change)))


def rename(folder: Path) -> None:
    (folder / "model.onnx").rename(folder / "other.onnx")
    og.Model(str(folder))


def of_text(text: str) -> Callable[[Path], object]:
    return lambda folder: ((folder / "genai_config.json").write_text(text), og.Config(str(folder)))


WRONG: list[tuple[str, Callable[[Path], object]]] = [
    ("there is no file .*give the path of a folder that holds one", lambda f: og.Model(str(f / "gone"))),
    ("there is one in .*folder", lambda f: og.Model(str(f.parent))),
    ("which model.decoder.filename names; the folder has 'other.onnx'", rename),
    ("must be JSON", of_text("{")),
    ("must hold an object", of_text("[]")),
    ("there must be a section 'model'", of_text("{}")),
    ("there is no section 'serch'; did you mean search", of_text('{"serch": {}}')),
    ("there is no search option 'topk'", model_of(lambda c: c["search"].update(topk=1))),
    ("model.vocab_size must be a number", model_of(lambda c: c["model"].update(vocab_size="x"))),
    ("context_length must be a whole number, and is not there", model_of(lambda c: c["model"].pop("context_length"))),
    (f"vocab_size must be at most {WORDS}", model_of(lambda c: c["model"].update(vocab_size=WORDS + 1))),
    ("eos_token_id must be below vocab_size", model_of(lambda c: c["model"].update(eos_token_id=WORDS))),
    ("eos_token_id must be a whole number, or a list", model_of(lambda c: c["model"].update({"eos_token_id": "x"}))),
    ("head_size must be 8, as input", model_of(lambda c: c["model"]["decoder"].update(head_size=4))),
    ("num_key_value_heads must be 2", model_of(lambda c: c["model"]["decoder"].update(num_key_value_heads=4))),
    ("no output 'scores'; it has", model_of(lambda c: c["model"]["decoder"]["outputs"].update(logits="scores"))),
    ("has no input 'ids'", model_of(lambda c: c["model"]["decoder"]["inputs"].update(input_ids="ids"))),
    ("no output 'p.0'", model_of(lambda c: c["model"]["decoder"]["outputs"].update(present_key_names="p.%d"))),
    ("inside of the folder", model_of(lambda c: c["model"]["decoder"].update(filename="../model.onnx"))),
    ("type 'gemma4' are not run here: they need vision", model_of(lambda c: c["model"].update(type="gemma4"))),
    ("type 'whisper' must have model.encoder.filename", model_of(lambda c: c["model"].update(type="whisper"))),
    (
        "provider 'quantum' has no device here",
        model_of(lambda c: c["model"]["decoder"]["session_options"].update(provider_options=[{"quantum": {}}])),
    ),
    (
        "graph_optimization_level must be one of",
        model_of(lambda c: c["model"]["decoder"]["session_options"].update(graph_optimization_level="x")),
    ),
    ("must be a list of objects", lambda f: og.Config(str(f)).overlay(
        '{"model": {"decoder": {"session_options": {"provider_options": {"cpu": 1}}}}}'
    )),
    ("config must be a Config", lambda f: og.Model(5)),  # type: ignore[arg-type]  # refused
    ("data must be bytes", lambda f: og.Config(str(f)).add_model_data("model.onnx", 5)),
    ("there is no file .*gone", lambda f: og.Adapters(og.Model(str(f))).load(str(f / "gone"), "x")),
    ("it begins otherwise", lambda f: og.Adapters(og.Model(str(f))).load(str(f / "model.onnx"), "x")),
]  # fmt: skip


@pytest.mark.parametrize(("told", "act"), WRONG, ids=[told[:30] for told, _ in WRONG])
def test_what_is_wrong_is_told(folder: Path, told: str, act: Callable[[Path], object]) -> None:
    with pytest.raises(RuntimeError, match=told):
        act(folder)


@pytest.mark.parametrize(
    ("names", "kind", "told"),
    [
        (
            ("logits",),
            "BFLOAT16",
            "'logits' is of BFLOAT16, which DirectML lacks; build the folder with precision fp16",
        ),
        (
            ("past_key_values.0.key", "present.0.key"),
            "FLOAT8E4M3FN",
            "'past_key_values.0.key' is of FLOAT8E4M3FN, .*; build the folder with kv_cache_quant_scheme int8_per",
        ),
    ],
)
def test_types_that_directml_lacks_are_told_as_a_folder_loads(
    folder: Path, names: tuple[str, ...], kind: str, told: str
) -> None:
    proto = onnx.load_from_string(SLOW)
    for one in (*proto.graph.input, *proto.graph.output):
        if one.name in names:
            one.type.tensor_type.elem_type = onnx.TensorProto.DataType.Value(kind)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(RuntimeError, match=told):
        og.Model(str(folder))


def test_caches_in_blocks_are_told_as_a_folder_loads(folder: Path) -> None:
    proto = onnx.load_from_string(SLOW)
    proto.graph.input.append(info("block_table", "int32", ["b", "n"]))
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(RuntimeError, match=r"'block_table' is of caches in blocks.*without use_paged_attention"):
        og.Model(str(folder))


def test_overlays_and_providers_change_a_configuration(folder: Path) -> None:
    changed_folder = changed(
        folder,
        lambda c: c["model"]["decoder"]["session_options"].update(provider_options=[{"dml": {"device_id": "0"}}]),
    )
    made = og.Config(str(changed_folder))
    assert made.providers == ["dml"]
    made.overlay('{"search": {"max_length": 9}, "model": {"eos_token_id": 5}}')
    assert (made.search.max_length, made.eos_token_ids, made.search.past_present_share_buffer) == (9, [5], True)
    made.clear_providers()
    made.append_provider("CUDAExecutionProvider")
    made.set_provider_option("slide rule", "digits", "3")
    assert made.providers == ["cuda", "slide rule"]
    made.clear_providers()
    made.set_decoder_provider_options_hardware_device_type("cpu", "gpu")
    assert og.Model(made).device_type == "CPU"


def test_a_model_may_come_of_bytes(folder: Path) -> None:
    made = og.Config(str(folder))
    made.add_model_data("model.onnx", memoryview((folder / "model.onnx").read_bytes()))
    (folder / "model.onnx").unlink()
    model = og.Model(made)
    made.remove_model_data("model.onnx")
    generator = og.Generator(model, og.GeneratorParams(model))
    generator.append_tokens([1, 2])
    generator.generate_next_token()
    assert generator.token_count() == 3


def adapter(parameters: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """An .onnx_adapter file: a FlatBuffer, whose tables are written one after another."""
    data = bytearray(b"\0\0\0\0TORT")

    def put(*words: int) -> int:
        data.extend(b"\0" * (-len(data) % 4))
        at = len(data)
        for word in words:
            data.extend(int(word).to_bytes(4, "little", signed=True))
        return at

    def vector(count: int, content: bytes) -> int:
        at = put(count)
        data.extend(content)
        return at

    def table(*fields: int) -> int:
        """Fields of four bytes each: numbers, or offsets that `point` writes."""
        sizes = 4 + 2 * len(fields), 4 + 4 * len(fields)
        places = put()
        for size in (*sizes, *(4 + 4 * i for i in range(len(fields)))):
            data.extend(size.to_bytes(2, "little"))
        at = put()
        put(at - places, *fields)
        return at

    def point(at: int, to: int) -> None:
        data[at : at + 4] = (to - at).to_bytes(4, "little")

    root = table(1, 1, 1, 0)
    point(0, root)
    listed = put(len(parameters), *([0] * len(parameters)))
    point(root + 16, listed)
    for i, (name, array) in enumerate(parameters.items()):
        at = table(0, 0, 1, 0)
        point(listed + 4 + 4 * i, at)
        point(at + 4, vector(len(name), name.encode()))
        point(at + 8, vector(array.ndim, np.array(array.shape, np.int64).tobytes()))
        point(at + 16, vector(array.nbytes, array.tobytes()))
    return bytes(data)


def test_an_adapter_takes_the_place_of_parameters(tmp_path: Path) -> None:
    model = og.Model(str(make_folder(tmp_path, decoder(adapters=True))))
    shift = np.zeros(WORDS, np.float32)
    shift[42] = 1e6
    (tmp_path / "a.onnx_adapter").write_bytes(adapter({"shift": shift}))
    (tmp_path / "b.onnx_adapter").write_bytes(adapter({"other": shift}))
    (tmp_path / "c.onnx_adapter").write_bytes(adapter({"shift": shift[:3]}))
    adapters = og.Adapters(model)
    adapters.load(str(tmp_path / "a.onnx_adapter"), "a")
    for path, told in (("a", "is loaded already"), ("b", "no input or initializer"), ("c", "must be of shape")):
        with pytest.raises(RuntimeError, match=told):
            adapters.load(str(tmp_path / f"{path}.onnx_adapter"), "a")
    plain, adapted = (og.Generator(model, og.GeneratorParams(model)) for _ in range(2))
    adapted.set_active_adapter(adapters, "a")
    for generator in (plain, adapted):
        generator.append_tokens([1, 2, 3])
        generator.generate_next_token()
    assert adapted.get_next_tokens().tolist() == [42] != plain.get_next_tokens().tolist()
    with pytest.raises(RuntimeError, match="in use by a generator"):
        adapters.unload("a")
    del adapted, generator
    adapters.unload("a")


PROGRAM = """
import sys
import numpy as np
import onnxruntime_genai as og
model = og.Model(sys.argv[1])
params = og.GeneratorParams(model)
params.set_search_options(max_length=6)
generator = og.Generator(model, params)
generator.append_tokens(np.array([[1, 2, 3]], dtype=np.int32))
while not generator.is_done():
    generator.generate_next_token()
print(og.__version__, model.type, len(generator.get_sequence(0)))
"""


def test_a_program_for_genai_runs_unchanged(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    run = [sys.executable, "-m", "anydml.genai", str(script), str(folder)]
    found = subprocess.run(run, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    version, kind, count = found.stdout.split()
    assert (version, kind) == (og.__version__, "llama")
    assert 4 <= int(count) <= 6
    told = subprocess.run([*run[:3], "-h"], capture_output=True, text=True, check=False)  # noqa: S603 - likewise
    assert told.stderr.startswith("usage: python -m anydml.genai")


def test_the_end_of_a_sequence_is_the_configuration_s(folder: Path) -> None:
    assert og.Config(str(folder)).eos_token_ids == [END]
    bare = og.Config(str(changed(folder, lambda c: c["model"].pop("eos_token_id"))))
    assert bare.eos_token_ids == [bare.number("pad_token_id")]
