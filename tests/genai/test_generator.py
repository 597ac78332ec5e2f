"""Generators: each token is the one that the model gives for the whole sequence; what is asked for wrongly is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are made with it")

import anydml.genai as og
from anydml.genai import generator
from anydml.genai.decoder import Decoder
from anydml.genai.last_rows import ROWS, rows_at, with_rows
from anydml.genai.search import Draws, Search, kept_tokens, penalise
from anydml.genai.search_options import SearchOptions
from anydml.onnx.program import Program
from anydml.onnx.read import read_model
from genai_folders import BYTES, END, LAYERS, ROOM, SHARED, SIZE, WORDS, decoder, make_folder
from onnx_models import helper, info, node, onnx

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROMPT = [10, 20, 30, 40]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> og.Model:
    return og.Model(str(make_folder(tmp_path_factory.mktemp("genai"))))


def start(model: og.Model, tokens: Any = None, **options: Any) -> og.Generator:
    params = og.GeneratorParams(model)
    params.set_search_options(**{"max_length": 14, **options})
    generator = og.Generator(model, params)
    if tokens is not None:
        generator.append_tokens(np.array(tokens, np.int32))
    return generator


def finish(generator: og.Generator, index: int = 0) -> list[int]:
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(index)]


def whole(model: og.Model, tokens: list[int]) -> Any:
    """The logits after a whole sequence, taken in at once."""
    empty = np.zeros((1, SHARED, 0, SIZE), np.float32)
    past = {f"past_key_values.{i}.{part}": empty for i in range(LAYERS) for part in ("key", "value")}
    ids = np.array([tokens], np.int64)
    given = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        ROWS: rows_at(np.arange(len(tokens))[None], len(tokens)),
        **past,
    }
    return model.session.run(["logits"], given)[0][0, -1]


@pytest.fixture(scope="module")
def greedy(model: og.Model) -> list[int]:
    found = list(PROMPT)
    while len(found) < 14:
        found.append(int(np.argmax(whole(model, found))))
        if found[-1] == END:
            break
    return found


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("chunk", [0, 3])
def test_each_token_is_the_likeliest_after_the_whole_sequence(
    model: og.Model, greedy: list[int], is_shared: bool, chunk: int
) -> None:
    assert finish(start(model, PROMPT, past_present_share_buffer=is_shared, chunk_size=chunk)) == greedy


@pytest.mark.parametrize("provider", ["webgpu"])
def test_a_device_gives_the_tokens_of_the_cpu(model: og.Model, provider: str, greedy: list[int]) -> None:
    if not getattr(og, f"is_{provider}_available")():
        pytest.skip("there is no adapter")
    config = og.Config(str(model.config.folder))
    config.append_provider(provider)
    there = og.Model(config)
    assert there.device_type == "WebGPU"
    assert finish(start(there, PROMPT, max_length=7)) == greedy[:7]


def test_steps_on_a_device_are_the_same_launches(model: og.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second step on nothing is compiled or bound, and masks go on with zeros."""
    if not og.is_webgpu_available():
        pytest.skip("there is no adapter")
    config = og.Config(str(model.config.folder))
    config.append_provider("webgpu")
    given, bound = list[Any](), list[int]()
    bind = Program._bound_on_device
    generator = start(og.Model(config), PROMPT, max_length=12, min_length=12)

    def binding(*of: Any) -> Any:
        bound.append(len(given))
        return bind(*of)

    monkeypatch.setattr(Program, "_bound_on_device", binding)
    while not generator.is_done():
        generator.generate_next_token()
        given.append(generator.get_input("attention_mask"))
    assert [int(mask.sum()) for mask in given[1:]] == [5, 6, 7, 8, 9, 10, 11]
    assert {mask.shape for mask in given[1:]} == {(1, 12)}
    assert bound == [2]  # the first step is run, and the second bound when it has been


@pytest.mark.parametrize("options", [{}, {"min_length": 12}, {"batch_size": 2}, {"do_sample": True, "top_k": 1}])
def test_the_likeliest_token_is_found_where_logits_are(
    model: og.Model, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ends that are barred and sequences that have ended, as by logits on the host."""
    torch = pytest.importorskip("torch", reason="PyTorch finds it on a GPU, and stands in for one here")
    prompt = [PROMPT] * options.get("batch_size", 1)

    def told() -> list[list[int]]:
        made = start(model, prompt, **options)
        while not made.is_done():
            made.generate_next_token()
        return [made.get_sequence(row).tolist() for row in range(len(prompt))]

    wanted, found, likeliest = told(), list[Any](), Decoder._likeliest

    def watched(self: Decoder, logits: Any, last: Any, barred: Any) -> Any:
        found.append(list(barred))
        return likeliest(self, torch.from_numpy(logits), last, barred)

    monkeypatch.setattr(Decoder, "finds_likeliest", True)
    monkeypatch.setattr(Decoder, "_likeliest", watched)
    assert told() == wanted
    assert found
    assert any(found) == ("min_length" in options)


def test_no_likeliest_token_is_taken_of_nan() -> None:
    search = Search(SearchOptions(batch_size=2, max_length=4), [9], 0)
    search.append(np.array([[1], [2]]))
    with pytest.raises(RuntimeError, match="NaN"):
        search.choose_likeliest(np.array([3, 4]), np.array([1.0, np.nan]))
    assert search.length == 1
    search.choose_likeliest(np.array([9, 4]), np.array([1.0, np.inf]))
    search.choose_likeliest(np.array([5, 6]), np.array([np.nan, 0.0]))  # the first has ended
    assert search.tokens[:, :3].tolist() == [[1, 9, 0], [2, 4, 6]]


def test_a_mask_is_longer_only_where_its_length_chooses_nothing(tmp_path: Path, model: og.Model) -> None:
    """As it chooses the rotary table of some models."""
    assert model.takes_longer_masks
    made = onnx.load(model.config.folder / "model.onnx")
    made.graph.node.insert(0, node("Size", "attention_mask", "count"))
    made.graph.output.append(info("count", "int64", []))
    there = make_folder(tmp_path, made.SerializeToString())
    assert not og.Model(str(there)).takes_longer_masks


@pytest.mark.parametrize("is_shared", [True, False])
def test_shorter_sequences_of_a_batch_end_in_padding(model: og.Model, is_shared: bool) -> None:
    several = [[10, 20, 30, 40], [11, 12, BYTES, BYTES], [50, 60, 70, BYTES]]
    generator = start(model, several, batch_size=3, past_present_share_buffer=is_shared)
    together = [finish(generator, row) for row in range(3)]
    for row, tokens in enumerate(several):
        own = [token for token in tokens if token != BYTES]
        alone = finish(start(model, own, max_length=len(own) + 10))
        padded = together[row][4:]
        assert padded[: len(alone) - len(own)] == alone[len(own) :]


def test_positions_may_be_an_input(tmp_path: Path, greedy: list[int]) -> None:
    there = og.Model(str(make_folder(tmp_path, decoder(positions=True))))
    assert finish(start(there, PROMPT, max_length=9)) == greedy[:9]
    several = [PROMPT, [11, 12, BYTES, BYTES]]
    generator = start(there, several, batch_size=2, max_length=9)
    assert finish(generator) == greedy[:9]
    assert generator.get_input("position_ids").tolist() == [[7], [5]]


def test_sequences_go_on_and_go_back(model: og.Model, greedy: list[int]) -> None:
    for is_shared in (True, False):
        generator = start(model, PROMPT[:2], past_present_share_buffer=is_shared)
        generator.append_tokens(PROMPT[2:])
        assert finish(generator) == greedy
        generator.rewind_to(6)
        assert generator.token_count() == 6
        assert generator.get_next_tokens().tolist() == [greedy[6]]  # as GenAI: it is the first to follow
        generator.generate_next_token()
        assert generator.get_sequence(0).tolist() == greedy[:8]
        generator.rewind_to(3)
        generator.append_tokens(PROMPT[3:])
        assert finish(generator) == greedy
        generator.rewind_to(0)
        generator.append_tokens(PROMPT)
        assert finish(generator) == greedy


def test_logits_may_be_read_and_replaced(model: og.Model) -> None:
    generator = start(model, PROMPT)
    logits = generator.get_logits()
    assert logits.shape == (1, 1, WORDS)
    np.testing.assert_allclose(logits[0, 0], whole(model, PROMPT), rtol=1e-4, atol=1e-4)
    assert generator.get_input("attention_mask").tolist() == [[1, 1, 1, 1]]
    logits[:] = 0
    logits[0, 0, 77] = 1
    generator.set_logits(logits)
    generator.generate_next_token()
    assert generator.get_sequence(0).tolist() == [*PROMPT, 77]
    assert generator.get_output("logits").shape == (1, 4, WORDS), "of the last step, which took the prompt in"
    with pytest.raises(RuntimeError, match="there are no logits yet to replace"):
        generator.set_logits(logits)
    generator.set_runtime_option("terminate_session", "1")
    with pytest.raises(RuntimeError, match="this generator was ended"):
        generator.generate_next_token()


def test_a_sequence_that_has_ended_is_padded_and_may_go_on(model: og.Model) -> None:
    """The token that ends the last sequence is in none."""
    generator = start(model, [PROMPT, PROMPT], batch_size=2)
    logits = np.zeros((2, WORDS), np.float32)
    logits[0, END], logits[1, 5] = 1, 1
    generator.set_logits(logits)
    generator.generate_next_token()
    assert not generator.is_done()
    generator.generate_next_token()
    assert generator.get_sequence(0)[4:].tolist() == [END, BYTES]
    alone = start(model, PROMPT)
    alone.set_logits(logits[:1])
    alone.generate_next_token()
    assert alone.is_done()
    assert (alone.get_next_tokens().tolist(), alone.get_sequence(0).tolist()) == ([END], PROMPT)
    alone.generate_next_token()
    assert (alone.is_done(), alone.get_next_tokens().tolist(), alone.token_count()) == (True, [BYTES], 4)
    alone.append_tokens([1, 2])
    assert not alone.is_done()
    assert alone.get_sequence(0).tolist() == [*PROMPT, 1, 2]


@pytest.mark.parametrize("options", [{"top_k": 12, "top_p": 0.9}, {"top_k": 0, "top_p": 0.7}, {"top_k": 5}])
def test_a_seed_draws_the_same_tokens_again(model: og.Model, options: dict[str, Any]) -> None:
    runs = [
        finish(start(model, PROMPT, do_sample=True, temperature=1.5, random_seed=seed, **options)) for seed in (7, 7, 8)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_draws_are_those_of_mt19937() -> None:
    first, second = 1608637542, 3421126067  # what std::mt19937 of seed 42 gives first
    assert Draws(42).uniform() == (first + second * 2.0**32) / 2.0**64
    counts = np.bincount([Draws(seed).pick(np.array([0.5, 0.25, 0.25])) for seed in range(300)], minlength=3)
    assert (abs(counts - [150, 75, 75]) < 40).all()


def test_few_of_the_likeliest_are_kept() -> None:
    logits = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))
    places, shares = kept_tokens(logits, 3, 0.0, 1.0)
    assert places.tolist() == [1, 3, 2]
    np.testing.assert_allclose(shares, np.array([4, 3, 2]) / 9, rtol=1e-5)
    assert kept_tokens(logits, 3, 0.6, 1.0)[0].tolist() == [1, 3]
    assert kept_tokens(logits, 0, 0.85, 1.0)[0].tolist() == [1, 3, 2]
    cold = kept_tokens(logits, 0, 1.0, 0.5)[1]
    np.testing.assert_allclose(cold, np.array([16, 9, 4, 1]) / 30, rtol=1e-5)


def test_penalties() -> None:
    logits = np.array([2, -2, 1, 3], np.float32)
    penalise(logits, np.array([0, 1, 9]), 3, SearchOptions(repetition_penalty=2.0, min_length=4), [3])
    assert logits[:3].tolist() == [1, -4, 1]
    assert logits[3] < -1e38
    logits = np.zeros(4, np.float32)
    penalise(logits, np.array([1, 2, 3, 1, 2]), 5, SearchOptions(no_repeat_ngram_size=3), [0])
    assert np.flatnonzero(logits < 0).tolist() == [3]


def test_beams_are_the_likeliest_sequences(model: og.Model, greedy: list[int]) -> None:
    length = 7
    generator = start(model, PROMPT, max_length=length, num_beams=6, num_return_sequences=4)
    found = [finish(generator, index) for index in range(4)]

    def score(tokens: list[int]) -> float:
        total = 0.0
        for end in range(len(PROMPT), len(tokens)):
            logits = whole(model, tokens[:end]).astype(np.float64)
            total += logits[tokens[end]] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        return total / len(tokens)

    scores = [score(tokens) for tokens in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] >= score(greedy[:length]) - 1e-6
    assert len({tuple(tokens) for tokens in found}) == 4


def test_what_fails_or_is_interrupted_leaves_the_sequence(
    model: og.Model, greedy: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = start(model, PROMPT)
    generator.generate_next_token()
    plain = model.session.run_with_iobinding

    def interrupted(binding: Any, *given: Any) -> None:
        raise KeyboardInterrupt

    for act in (generator.generate_next_token, lambda: generator.append_tokens([1, 2, 3])):
        monkeypatch.setattr(model.session, "run_with_iobinding", interrupted)
        with pytest.raises(KeyboardInterrupt):
            act()
        monkeypatch.setattr(model.session, "run_with_iobinding", plain)
        assert generator.get_sequence(0).tolist() == greedy[:5]
    assert finish(generator) == greedy


def test_a_longer_sequence_may_turn_positions_otherwise(
    model: og.Model, greedy: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(generator._LONG, "llama", 8)
    made = start(model, PROMPT)
    while made.token_count() < 8:
        made.generate_next_token()
    assert made.get_input("input_ids").shape == (1, 1)
    made.generate_next_token()
    assert made.get_input("input_ids").tolist() == [greedy[:8]]
    made.generate_next_token()
    assert made.get_input("input_ids").shape == (1, 1)
    assert finish(made) == greedy


WRONG: list[tuple[str, Callable[[og.Model], object]]] = [
    (r"there is no search option 'topk'; did you mean top_k", lambda m: start(m, topk=3)),
    ("max_length must be a whole number; got 1.5", lambda m: start(m, max_length=1.5)),
    ("do_sample must be of type bool", lambda m: start(m, do_sample=1)),
    ("top_p must be a number", lambda m: start(m, top_p="x")),
    (f"max_length must be 1 to {ROOM}, the model's context_length; got 65", lambda m: start(m, max_length=65)),
    ("num_return_sequences must be 1 to 2", lambda m: start(m, num_beams=2, num_return_sequences=3)),
    ("beams cannot be sampled", lambda m: start(m, num_beams=2, do_sample=True)),
    ("top_p must be 0 to 1; got 1.5", lambda m: start(m, do_sample=True, top_p=1.5)),
    ("top_k must be 0", lambda m: start(m, do_sample=True, top_k=WORDS + 1)),
    ("there must be a token at least", lambda m: start(m, [])),
    (f"tokens must be 0 to {WORDS - 1}", lambda m: start(m, [WORDS])),
    ("tokens must be 0 to", lambda m: start(m, [-1])),
    ("tokens must be an array of whole numbers", lambda m: start(m).append_tokens([1.5])),
    (
        r"at most max_length = 14 tokens; got 15 after 0: 15; set_search_options\(max_length",
        lambda m: start(m, [1] * 15),
    ),
    ("that is the model's context_length", lambda m: start(m, [1] * 70, max_length=ROOM)),
    ("batch_size being 2", lambda m: start(m, [1, 2, 3], batch_size=2)),
    ("there are no tokens to go on from", lambda m: start(m).generate_next_token()),
    ("ask is_done", lambda m: start(m, [1] * 14).generate_next_token()),
    ("new_length must be 0 to 4; got 5", lambda m: start(m, PROMPT).rewind_to(5)),
    ("index must be 0 to 0", lambda m: start(m, PROMPT).get_sequence(1)),
    ("logits must be numbers of shape", lambda m: start(m, PROMPT).set_logits(np.zeros(3))),
    ("the last step had no output 'x'", lambda m: start(m, PROMPT).get_output("x")),
    ("there is no input 'x'; the model has 'input_ids'", lambda m: start(m).set_model_input("x", np.zeros(1))),
    ("several sequences go back to 0 alone", lambda m: start(m, [PROMPT] * 2, batch_size=2).rewind_to(2)),
    (
        "several sequences can be given tokens once",
        lambda m: start(m, [PROMPT] * 2, batch_size=2).append_tokens([1, 2]),
    ),
    ("model must be a Model", lambda m: og.Generator("x", og.GeneratorParams(m))),  # type: ignore[arg-type]  # refused
    ("the type of a guidance must be one of", lambda m: og.GeneratorParams(m).set_guidance("xml", "x")),
    ("there is no speculative option", lambda m: og.GeneratorParams(m).set_speculative_options(foo=1)),
    ("there is no adapter 'x'; load one first", lambda m: start(m).set_active_adapter(og.Adapters(m), "x")),
    ("has no processor of images or sound", lambda m: m.create_multimodal_processor()),
    ("there is no file 'x.png'", lambda m: og.Images.open("x.png")),
    ("there is no tensor 'x'; there is none", lambda m: og.NamedTensors()["x"]),
    ("there is no log option 'loud'", lambda m: og.set_log_options(loud=True)),
]


@pytest.mark.parametrize(("told", "act"), WRONG, ids=[told[:30] for told, _ in WRONG])
def test_what_is_wrong_is_told(model: og.Model, told: str, act: Callable[[og.Model], object]) -> None:
    with pytest.raises(RuntimeError, match=told):
        act(model)


def test_options_are_those_of_the_folder_and_none_is_set_where_one_is_wrong(model: og.Model) -> None:
    params = og.GeneratorParams(model)
    assert params.get_search_options()["max_length"] == 24.0
    with pytest.raises(RuntimeError):
        params.set_search_options(max_length=9, foo=1)
    assert params.get_search_options()["max_length"] == 24.0
    assert params.get_speculative_options()["max_draft_tokens"] == 4.0


def test_tensors_by_name() -> None:
    named = og.NamedTensors()
    named["ids"] = np.array([[1, 2]], np.int32)
    named["x"] = og.Tensor(np.ones((2, 3), np.float16))
    assert (named["x"].shape(), named["x"].type(), named.keys(), len(named)) == ([2, 3], 10, ["ids", "x"], 2)
    assert "ids" in named
    del named["ids"]
    assert list(named) == ["x"]


def test_the_log_is_told_of_steps(model: og.Model, tmp_path: Path) -> None:
    told: list[str] = []
    try:
        og.set_log_options(enabled=True, ansi_tags=False, generate_next_token=True, model_input_values=True)
        og.set_log_callback(told.append)
        start(model, PROMPT).generate_next_token()
        og.set_log_options(filename=str(tmp_path / "steps.log"))
        start(model, PROMPT).generate_next_token()
    finally:
        og.set_log_options(enabled=False, ansi_tags=True, generate_next_token=False, filename="")
        og.set_log_options(model_input_values=False)
        og.set_log_callback(None)
    assert len(told) == 2
    assert told[0].startswith("model_input_values: \ninput_ids: int64 [1, 4]")
    assert told[1].startswith("generate_next_token: sequence length 4")
    assert (tmp_path / "steps.log").read_text() == "".join(told)


@pytest.mark.parametrize("is_shared", [True, False])
def test_logits_of_a_prompt_are_computed_for_its_last_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    """The session's own, whose product of logits has every row, gives the same; all rows are there for who asks."""
    model = og.Model(str(make_folder(tmp_path, past_present_share_buffer=is_shared)))
    assert model.takes_rows
    monkeypatch.setattr("anydml.genai.model.with_rows", lambda source, _: source)
    plain = og.Model(str(tmp_path))
    assert not plain.takes_rows
    several = np.array([[7, 8, 9, 10], [11, 12, BYTES, BYTES]])  # the second ends in padding
    for given in (several, several[:1], several[:, :1]):
        generators = [start(each, given, max_length=12, batch_size=len(given)) for each in (model, plain)]
        sizes = [generator._decoder._found["logits"].shape for generator in generators]
        assert sizes == [(len(given), 1, WORDS), (*given.shape, WORDS)]
        for _ in range(3):
            ours, wanted = (generator.get_logits() for generator in generators)
            np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)
            whole, wanted = (generator.get_output("logits") for generator in generators)
            assert whole.shape == wanted.shape
            np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-5)
            for one in generators:
                one.generate_next_token()
        ours, wanted = (one.get_sequence(0) for one in generators)
        np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize(
    ("nodes", "is_taken"),
    [
        ([node("MatMul", "h head", "logits")], True),
        ([node("MatMul", "h head", "y"), node("Div", "y five", "z"), node("Tanh", "z", "logits")], True),
        ([node("MatMul", "h head", "y"), node("Add", "y more", "logits")], False),
        ([node("MatMul", "h head", "y"), node("Softmax", "y", "logits")], False),
        ([node("MatMul", "h head", "y"), node("Identity", "y", "logits"), node("Neg", "y", "z")], False),
        ([node("MatMul", "h more", "logits")], False),
    ],
)
def test_rows_are_asked_for_where_each_is_computed_alone(nodes: list[Any], is_taken: bool) -> None:
    """A product with a constant, and what is done to each element; nobody else reads what is between."""
    inputs = [info("h", "float32", ["b", "s", 3]), info("more", "float32", ["b", "s", 5])]
    constants = {"head": np.ones((3, 5), "float32"), "five": np.array(5, "float32")}
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    outputs = [info("logits", "float32", ["b", "s", 5])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    source = read_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    names = [one.name for one in with_rows(source, "logits").model.graph.input]
    assert names == ["h", "more", *[ROWS] * is_taken]


# Caches of a window, and states of fixed size


@pytest.fixture(scope="module", params=["window", "states", "axes"])
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Model:
    made = {"window": 5} if request.param == "window" else {request.param: True}
    return og.Model(str(make_folder(tmp_path_factory.mktemp(request.param), decoder(**made))))


def again(model: og.Model, tokens: list[int]) -> int:
    """The token after a whole sequence, taken in at once."""
    return int(np.argmax(start(model, tokens, max_length=40).get_logits()))


@pytest.mark.long
@pytest.mark.parametrize("is_shared", [True, False])
def test_windows_and_states_give_the_tokens_of_the_whole_sequence(other: og.Model, is_shared: bool) -> None:
    found = finish(start(other, PROMPT, max_length=34, past_present_share_buffer=is_shared))
    lengths = [length for length in (4, 9, 22, 33) if length < len(found)]
    assert [found[length] for length in lengths] == [again(other, found[:length]) for length in lengths]
    assert other.session._model._divided is None  # no node runs on the host


def test_windows_and_states_go_back(other: og.Model) -> None:
    generator = start(other, PROMPT, max_length=34)
    whole = finish(generator)
    assert len(whole) > 26  # beyond the rows that are kept
    generator.rewind_to(24)
    generator.append_tokens(PROMPT)
    found = finish(generator)
    assert found[:28] == [*whole[:24], *PROMPT]
    assert found[-1] == again(other, found[:-1])


@pytest.mark.long
@pytest.mark.parametrize("is_shared", [True, False])
def test_padding_changes_no_window_or_state(other: og.Model, is_shared: bool) -> None:
    several = [[10, 20, 30, 40, 50, 60, 70, 80], [11, 12, *[BYTES] * 6], [50, 60, 70, *[BYTES] * 5]]
    options = {"past_present_share_buffer": is_shared, "max_length": 18}
    generator = start(other, several, batch_size=3, **options)
    together = [finish(generator, row) for row in range(3)]
    for row, tokens in enumerate(several):
        own = [token for token in tokens if token != BYTES]
        alone = finish(start(other, own, max_length=len(own) + 10))
        assert together[row][8 : 8 + len(alone) - len(own)] == alone[len(own) :]


@pytest.mark.parametrize("beams", [1, 3])
def test_a_cache_of_a_window_gives_the_tokens_of_a_whole_one(tmp_path: Path, beams: int) -> None:
    made = {slides: decoder(window=5, slides=slides) for slides in (False, True)}
    whole, kept = (og.Model(str(make_folder(tmp_path / str(slides), model))) for slides, model in made.items())
    options = {"max_length": 40, "num_beams": beams, "min_length": 39}
    found = finish(start(kept, PROMPT, **options))
    assert found == finish(start(whole, PROMPT, **options))
    rows = start(kept, PROMPT, past_present_share_buffer=False).get_input("past_key_values.0.key").shape[2]
    assert rows == 5 + 16


def test_all_logits_of_a_step_that_moved_a_window(tmp_path: Path) -> None:
    model = og.Model(str(make_folder(tmp_path, decoder(window=5))))
    assert model.takes_rows
    generator = start(model, [*range(30)], max_length=60)
    generator.append_tokens([*range(40, 50)])
    assert generator.get_output("logits").shape == (1, 10, WORDS)
    found = generator.get_output("logits")[0]
    several = start(model, [*range(30), *range(40, 50)], max_length=60).get_output("logits")[0, -10:]
    np.testing.assert_allclose(found, several, rtol=1e-4, atol=1e-4)
    generator.append_tokens([50])  # the step that was run again left the caches as it found them
    again = start(model, [*range(30), *range(40, 51)], max_length=60).get_logits()
    np.testing.assert_allclose(generator.get_logits(), again, rtol=1e-4, atol=1e-4)
