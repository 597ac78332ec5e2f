"""What GenAI's own tests of its API look at, and arguments that no method takes."""

from __future__ import annotations

import inspect
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are made with it")

import anydml.genai as og
from genai_folders import BYTES, WIDTH, WORDS, decoder, make_folder
from onnx_models import helper, info, node, onnx

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEVERAL = np.array([[10, 20, 30, 40], [50, 60, 70, 80]], np.int32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> og.Model:
    return og.Model(str(make_folder(tmp_path_factory.mktemp("api"))))


def start(model: og.Model, tokens: Any = None, **options: Any) -> og.Generator:
    params = og.GeneratorParams(model)
    params.set_search_options(**{"max_length": 14, **options})
    generator = og.Generator(model, params)
    if tokens is not None:
        generator.append_tokens(tokens)
    return generator


def changed(folder: Path, change: Callable[[Any], None]) -> og.Model:
    """A folder whose graph is another."""
    proto = onnx.load_from_string(decoder())
    change(proto.graph)
    return og.Model(str(make_folder(folder, proto.SerializeToString())))


# Inputs and outputs of a step


def test_logits_of_a_batch_are_those_of_each_sequence(model: og.Model) -> None:
    together = start(model, SEVERAL, batch_size=2)
    apart = [start(model, row) for row in SEVERAL]
    for count in (4, 1):
        found = together.get_output("logits")
        assert found.shape == (2, count, WORDS)
        wanted = np.concatenate([one.get_output("logits") for one in apart])
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        for one in (together, *apart):
            one.generate_next_token()
            one.get_logits()  # the step that takes the token in
    assert together.get_input("input_ids").shape == (2, 1)
    assert together.get_output("present.0.key").shape[0] == 2


def test_hidden_states_may_be_an_output(tmp_path: Path) -> None:
    """What include_hidden_states adds: those of a prompt's every token, and then of one."""

    def change(graph: Any) -> None:
        graph.node.append(node("Identity", "y", "hidden_states"))
        graph.output.append(info("hidden_states", "float32", ["b", "s", WIDTH]))

    generator = start(changed(tmp_path, change), SEVERAL, batch_size=2)
    generator.generate_next_token()
    assert generator.get_output("hidden_states").shape == (2, 4, WIDTH)
    generator.generate_next_token()
    assert generator.get_output("hidden_states").shape == (2, 1, WIDTH)


@pytest.mark.parametrize("name", ["num_logits_to_keep", "onnx::Neg_67", "abcde"])
def test_inputs_that_transformers_leaves_in_a_model_are_known(tmp_path: Path, name: str) -> None:
    def change(graph: Any) -> None:
        last = next(one for one in graph.node if one.output[0] == "logits")
        last.output[0] = "plain"
        graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.INT64, []))
        graph.node.extend([node("Cast", name, "more", to=1), node("Add", "plain more", "logits")])

    generator = start(changed(tmp_path, change))
    if name == "abcde":
        with pytest.raises(RuntimeError, match="Missing Input: abcde"):
            generator.append_tokens([1, 2])
        generator.set_model_input(name, np.array(0))
    generator.append_tokens([1, 2])
    generator.generate_next_token()
    assert generator.token_count() == 3


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_model_may_come_of_memory(tmp_path: Path, kind: Callable[[bytes], Any]) -> None:
    folder = make_folder(tmp_path)
    made = og.Config(str(folder))
    made.add_model_data("model.onnx", kind((folder / "model.onnx").read_bytes()))
    (folder / "model.onnx").unlink()
    generator = start(og.Model(made), [1, 2])
    generator.generate_next_token()
    assert generator.token_count() == 3


def test_telemetry_is_a_word_alone() -> None:
    og.disable_telemetry_events()
    og.enable_telemetry_events()


# Logits of which nothing can be chosen

CHOICES: list[dict[str, Any]] = [
    {},
    {"do_sample": True, "top_k": 5},
    {"do_sample": True, "top_p": 0.9},
    {"num_beams": 3},
]


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_logits_that_are_no_numbers_are_told(model: og.Model, options: dict[str, Any]) -> None:
    generator = start(model, [1, 2, 3], **options)
    logits = generator.get_logits()
    for value, told in ((np.nan, "logits must be numbers; got NaN; FLOAT16 overflows"), (-np.inf, "above -inf")):
        generator.set_logits(np.full_like(logits, value))
        with pytest.raises(RuntimeError, match=told):
            generator.generate_next_token()
        assert generator.token_count() == 3  # nothing was chosen, and it may go on
    logits[..., 42] = np.inf
    generator.set_logits(logits)
    generator.generate_next_token()
    assert 42 in generator.get_next_tokens()


def test_a_sequence_that_has_ended_may_have_any_logits(model: og.Model) -> None:
    generator = start(model, SEVERAL, batch_size=2)
    logits = generator.get_logits()
    logits[0, 0], logits[1, 0] = np.eye(WORDS)[model.config.eos_token_ids[0]], np.eye(WORDS)[7]
    generator.set_logits(logits)
    generator.generate_next_token()
    logits = generator.get_logits()
    logits[0] = np.nan
    generator.set_logits(logits)
    generator.generate_next_token()
    assert generator.get_next_tokens()[0] == BYTES


# What is given wrongly

ODD: list[Any] = [
    *(None, True, -1, 3, 2**63, 2.5, float("nan"), "x", "", "\0", "\ud800", b"x", [], [1, [2]], {}, object(), slice(1)),
    *(np.array([]), np.array([1.5]), np.array(["a"]), np.array([None]), np.zeros((2, 3, 4)), np.zeros(5, np.complex64)),
]
OURS = {
    "Config": {"names", "number", "path", "section", "type", "search"},
    "Model": {"window_rows"},
    "Adapters": {"parameters"},
}
"""Methods that GenAI has not: other modules call them."""


@pytest.mark.parametrize("kind", ["Config", "Model", "GeneratorParams", "Generator", "Tokenizer", "TokenizerStream",
                                  "Adapters", "NamedTensors", "Tensor"])  # fmt: skip
def test_every_method_takes_what_is_odd_or_says_what_it_wants(model: og.Model, kind: str) -> None:
    """A RuntimeError or a TypeError of the method's own, and no error of what lies below."""
    make: dict[str, Callable[[], Any]] = {
        "Config": lambda: og.Config(str(model.config.folder)),
        "Model": lambda: model,
        "GeneratorParams": lambda: og.GeneratorParams(model),
        "Generator": lambda: start(model, [1, 2, 3]),
        "Tokenizer": lambda: og.Tokenizer(model),
        "TokenizerStream": lambda: og.Tokenizer(model).create_stream(),
        "Adapters": lambda: og.Adapters(model),
        "NamedTensors": og.NamedTensors,
        "Tensor": lambda: og.Tensor(np.zeros(2)),
    }
    calls: list[tuple[Callable[..., Any], int]] = []
    for name, value in inspect.getmembers(getattr(og, kind), inspect.isfunction):
        if name.startswith("_") and name not in ("__getitem__", "__contains__", "__delitem__"):
            continue
        places = [one for one in inspect.signature(value).parameters.values() if one.kind in (0, 1)][1:]
        if places and name not in OURS.get(kind, ()):
            calls.append((value, len(places)))
    if kind != "NamedTensors":
        calls.append((getattr(og, kind), 2 if kind == "Generator" else 1))
    for call, count in calls:
        for odd in ODD:
            given = [odd] * count if inspect.isclass(call) else [make[kind](), *[odd] * count]
            try:
                call(*given)
            except (RuntimeError, TypeError) as error:
                assert type(error).__module__.startswith("anydml"), (call, odd, error)  # noqa: PT017 - of any class


def test_odd_search_options_are_told(model: og.Model) -> None:
    params = og.GeneratorParams(model)
    for name, value in params.get_search_options().items():
        for odd in ODD:
            try:
                params.set_search_options(**{name: odd})
            except RuntimeError as error:
                assert name in str(error), (name, odd)  # noqa: PT017 - of any class
            params.set_search_options(**{name: value})


@pytest.mark.parametrize("how", ["gone", "folder", "empty", "half", "other"])
def test_files_that_are_not_what_they_should_be(model: og.Model, tmp_path: Path, how: str) -> None:
    for name in ("model.onnx", "genai_config.json", "tokenizer.json"):
        folder = tmp_path / name
        shutil.copytree(model.config.folder, folder)
        data = (folder / name).read_bytes()
        (folder / name).unlink()
        if how == "folder":
            (folder / name).mkdir()
        elif how != "gone":
            made = {"empty": b"", "half": data[: len(data) // 2], "other": bytes(range(256))}
            (folder / name).write_bytes(made[how])
        with pytest.raises(RuntimeError) as told:
            og.Tokenizer(og.Model(str(folder)))
        assert name.partition(".")[0] in str(told.value) or name.endswith("onnx")
