"""Text to tokens and back, streams, chat templates and guidance."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are made with it")
pytest.importorskip("tokenizers", reason="a tokenizer.json needs it")

import anydml.genai as og
from genai_folders import BYTES, END, TEMPLATE, WORDS, make_folder

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["Hello", "naïve ☃ 🎉", "<|user|>hi<|end|>", ""]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> og.Model:
    return og.Model(str(make_folder(tmp_path_factory.mktemp("genai"))))


@pytest.fixture
def tokenizer(model: og.Model) -> og.Tokenizer:
    return og.Tokenizer(model)


@pytest.mark.parametrize("text", TEXTS)
def test_text_goes_to_tokens_and_back(tokenizer: og.Tokenizer, text: str) -> None:
    tokens = tokenizer.encode(text)
    assert tokens.dtype == np.int32
    plain = text.replace("<|user|>", "").replace("<|end|>", "")
    assert tokenizer.decode(tokens) == plain
    stream = tokenizer.create_stream()
    parts = [stream.decode(token) for token in tokens]
    assert "".join(parts) == plain
    assert not any("\ufffd" in part for part in parts)
    tokenizer.update_options(skip_special_tokens="false")
    assert tokenizer.decode(tokens) == text


def test_a_character_comes_with_its_last_byte(tokenizer: og.Tokenizer) -> None:
    stream = tokenizer.create_stream()
    assert [stream.decode(token) for token in "é🎉!".encode()] == ["", "é", "", "", "", "🎉", "!"]
    broken = [stream.decode(token) for token in (0xF0, *b"abc")]
    assert "".join(broken) == "\ufffdabc"
    stream.decode(0xF0)
    assert stream.flush() == "\ufffd"


def test_several_texts_are_padded_behind(tokenizer: og.Tokenizer) -> None:
    batch = tokenizer.encode_batch(["ab", "c"])
    assert batch.as_numpy().tolist() == [[97, 98], [99, BYTES]]
    assert tokenizer.decode_batch(batch) == ["ab", "c"]


def test_tokens_with_a_meaning(tokenizer: og.Tokenizer) -> None:
    assert (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_ids.tolist()) == (BYTES, BYTES, [END])
    assert (tokenizer.to_token_id("<|end|>"), tokenizer.to_token_id("none")) == (END, -1)
    with pytest.raises(RuntimeError, match="no token for the beginning of a tool call"):
        _ = tokenizer.bot_token_id


def test_a_template_makes_a_prompt_of_messages(tokenizer: og.Tokenizer, tmp_path: Path) -> None:
    said = json.dumps([{"role": "user", "content": "hi"}])
    assert tokenizer.apply_chat_template(said) == "<|user|>hi<|end|><|assistant|>"
    assert tokenizer.apply_chat_template(said, add_generation_prompt=False, tools="") == "<|user|>hi<|end|>"
    other = "{{ tools | tojson }}{{ eos_token }}{{ more }}"
    found = tokenizer.apply_chat_template(said, template_str=other, tools='[{"a": "<"}]', template_kwargs='{"more": 3}')
    assert found == '[{"a": "<"}]<|end|>3'
    folder = make_folder(tmp_path)
    (folder / "chat_template.jinja").write_text("{%- for m in messages %}\n    {{- m.content }}\n{%- endfor %}")
    assert og.Tokenizer(og.Config(str(folder))).apply_chat_template(said) == "hi"


WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("messages must be JSON", "x", {}),
    ("messages must be a list of objects", "3", {}),
    ("does not take these messages in line 1", "[]", {"template_str": "{% if %}"}),
    ("refuses these messages .*no system", "[]", {"template_str": "{{ raise_exception('no system') }}"}),
    ("does not take these messages .*unsafe", "[]", {"template_str": "{{ ''.__class__.__mro__ }}"}),
    ("tools must be JSON", "[]", {"tools": "{"}),
]


@pytest.mark.parametrize(("told", "said", "options"), WRONG)
def test_what_a_template_does_not_take_is_told(
    tokenizer: og.Tokenizer, told: str, said: str, options: dict[str, Any]
) -> None:
    with pytest.raises(RuntimeError, match=told):
        tokenizer.apply_chat_template(said, **options)


def test_what_a_folder_lacks_is_told(tmp_path: Path, tokenizer: og.Tokenizer) -> None:
    folder = make_folder(tmp_path)
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(RuntimeError, match="has no chat template; give one as template_str"):
        og.Tokenizer(str(folder)).apply_chat_template("[]")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(RuntimeError, match="must be a tokenizer of the library tokenizers"):
        og.Tokenizer(str(folder))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(RuntimeError, match=r"must have a tokenizer.json, or a tokenizer.model"):
        og.Tokenizer(str(folder))
    for told, act in (
        ("text must be a string", lambda: tokenizer.encode(5)),  # type: ignore[arg-type]  # refused
        ("tokens must be an array of whole numbers", lambda: tokenizer.decode(["x"])),
        ("tokens must be 0 or more", lambda: tokenizer.decode([-1])),
        ("there is no tokenizer option 'foo'", lambda: tokenizer.update_options(foo="x")),
    ):
        with pytest.raises(RuntimeError, match=told):
            act()


def test_a_missing_package_is_named(model: og.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(RuntimeError, match=r"a tokenizer.json needs tokenizers; pip install 'anydml\[genai\]'"):
        og.Tokenizer(model)


def test_sentencepiece_alone(tmp_path: Path) -> None:
    spm = pytest.importorskip("sentencepiece", reason="a tokenizer.model needs it")
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "a",
        "lazy",
        "dog",
        "and",
        "runs",
        "away",
        "from",
        "it",
        "again",
    ]
    (tmp_path / "text.txt").write_text("\n".join(" ".join(words[i:] + words[:i]) for i in range(len(words))))
    spm.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"), model_prefix=str(tmp_path / "tokenizer"), vocab_size=300,
        byte_fallback=True, minloglevel=9, hard_vocab_limit=False,
    )  # fmt: skip
    folder = make_folder(tmp_path)
    (folder / "tokenizer.json").unlink()
    settings = {"added_tokens_decoder": {"999": {"content": "<|end|>", "special": True}}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = og.Tokenizer(str(folder))
    tokens = tokenizer.encode("the lazy é dog<|end|>")
    assert tokens[-1] == 999 == tokenizer.to_token_id("<|end|>")
    assert tokenizer.decode(tokens) == "the lazy é dog"
    stream = tokenizer.create_stream()
    assert "".join(stream.decode(token) for token in tokens) == "the lazy é dog"


GUIDED = [
    ("regex", "(red|green) [0-9]{2}", {"red", "green"}),
    ("lark_grammar", 'start: "a" /[b-d]{2}/ "z"', {"a"}),
    ("json_schema", '{"enum": ["x", "yy"]}', {'"x"', '"yy"'}),
]


@pytest.mark.parametrize("forces", [False, True])
@pytest.mark.parametrize(("kind", "text", "beginnings"), GUIDED)
def test_answers_follow_a_guidance(
    model: og.Model, tokenizer: og.Tokenizer, kind: str, text: str, beginnings: set[str], forces: bool
) -> None:
    pytest.importorskip("llguidance", reason="guidance is its")
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=20)
    params.set_guidance(kind, text, forces)
    generator = og.Generator(model, params)
    for _ in range(2):
        generator.append_tokens([1, 2, 3])
        while not generator.is_done():
            generator.generate_next_token()
        answer = tokenizer.decode(generator.get_sequence(0)[3:])
        assert any(answer.startswith(one) for one in beginnings)
        assert generator.get_next_tokens().tolist() == [END]
        generator.rewind_to(0)


def test_a_guidance_that_cannot_be_followed_is_told(model: og.Model) -> None:
    pytest.importorskip("llguidance", reason="guidance is its")
    params = og.GeneratorParams(model)
    params.set_guidance("regex", "(")
    with pytest.raises(RuntimeError, match="the regex cannot be followed"):
        og.Generator(model, params)
    params.set_guidance("regex", "a")
    params.set_search_options(num_beams=2)
    with pytest.raises(RuntimeError, match="a guidance takes no beams"):
        og.Generator(model, params)
    assert model.vocab_size == WORDS
