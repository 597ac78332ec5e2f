"""Models of vision: pixels by formulas of their own, tokens by the models in NumPy, and what is wrong is told."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are made with it")
pytest.importorskip("PIL.Image", reason="pictures are decoded with it")

from click.testing import CliRunner
from PIL import Image

import anydml.genai as og
from anydml.cli.app import app
from anydml.genai.chat import Conversation
from anydml.genai.images import CenterCrop, DecodeImage, Resize, decode, scale
from genai_folders import BYTES, make_folder
from media_folders import IMAGE, LONGEST, make_vision, text_logits, vision_config, vision_processor, wav

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Array = np.ndarray[Any, Any]
    Made = dict[str, tuple[Path, og.Model, dict[str, Array]]]

MARK = {
    "phi3v": "<|image_{}|>",
    "gemma3": "<start_of_image>",
    "qwen2_5_vl": "<|vision_start|><|image_pad|><|vision_end|>",
}
MEAN, STD = np.array([0.48145466, 0.4578275, 0.40821073]), np.array([0.26862954, 0.26130258, 0.27577711])


def picture(width: int, height: int, seed: int = 0) -> Array:
    """Waves of colour."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 9 + seed), np.cos(y / 7 - seed), np.sin((x + 2 * y) / 11)]
    return np.round(127.5 + 120 * np.stack(waves, -1)).astype(np.uint8)


def png(held: Array, mode: str = "RGB", kind: str = "PNG", **more: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(held).convert(mode).save(file, kind, **more)
    return file.getvalue()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    found = {}
    for kind in MARK:
        path = tmp_path_factory.mktemp(kind)
        held = make_vision(path, kind)
        found[kind] = path, og.Model(str(path)), held
    return found


def inputs(model: og.Model, *pictures: Array, prompt: str | None = None) -> og.NamedTensors:
    marks = "".join("a" + MARK[model.type].format(place + 1) for place in range(len(pictures)))
    images = og.Images.open_bytes(*map(png, pictures)) if pictures else None
    return model.create_multimodal_processor()(f"{marks}b" if prompt is None else prompt, images=images)


def start(model: og.Model, given: og.NamedTensors, more: int = 6, **options: Any) -> og.Generator:
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=given["input_ids"].as_numpy().size + more, **options)
    generator = og.Generator(model, params)
    generator.set_inputs(given)
    return generator


def finish(generator: og.Generator) -> list[int]:
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)]


# Pixels


def cubic(count: int, size: int) -> Array:
    """How much each of `count` pixels counts for each of `size`: Keys' cubic of -0.5, wider where there are fewer."""
    wide = max(1.0, count / size)
    far = np.abs(np.arange(count)[None] + 0.5 - (np.arange(size)[:, None] + 0.5) * count / size) / wide
    inner, outer = (1.5 * far - 2.5) * far**2 + 1, ((-0.5 * far + 2.5) * far - 4) * far + 2
    weights = np.where(far < 1, inner, np.where(far < 2, outer, 0))
    found: Array = weights / weights.sum(1, keepdims=True)
    return found


@pytest.mark.parametrize(("width", "height"), [(64, 64), (120, 90), (40, 200), (60, 70)])
def test_gemmas_pixels_are_the_formulas(made: Made, width: int, height: int) -> None:
    held = picture(width, height)
    given = inputs(made["gemma3"][1], held)
    rows = np.einsum("tw,hwc->htc", cubic(width, 64), held.astype(np.float64))
    scaled = np.einsum("th,hwc->twc", cubic(height, 64), np.clip(np.round(rows), 0, 255))
    expected = (np.clip(scaled, 0, 255) / 255 - 0.5) / 0.5
    found = given["pixel_values"].as_numpy()
    assert (found.dtype, found.shape) == (np.float32, (1, 3, 64, 64))
    assert np.abs(found[0].transpose(1, 2, 0) - expected).max() < 1.6 / 127.5  # bytes are rounded twice
    soft = given["input_ids"].as_numpy() == IMAGE
    assert soft.sum() == 256
    assert np.array_equal(given["token_type_ids"].as_numpy(), soft)
    assert given["num_image_tokens"].as_numpy().tolist() == [256]


def test_qwens_patches_are_the_formulas(made: Made) -> None:
    """A picture that whole patches fill stays as it is; patches stand in squares of 2 x 2, twice for two times."""
    held = picture(84, 56)
    given = inputs(made["qwen2_5_vl"][1], held)
    assert given["image_grid_thw"].as_numpy().tolist() == [[1, 4, 6]]
    levels = (held / 255 - MEAN) / STD
    expected = [
        np.stack([levels[14 * y : 14 * y + 14, 14 * x : 14 * x + 14].transpose(2, 0, 1)] * 2, 1).reshape(-1)
        for top in (0, 2)
        for left in (0, 2, 4)
        for y in (top, top + 1)
        for x in (left, left + 1)
    ]
    assert np.abs(given["pixel_values"].as_numpy() - np.stack(expected)).max() < 1e-6
    assert (given["input_ids"].as_numpy() == IMAGE).sum() == 6


def test_phis_crops_are_the_formulas(made: Made) -> None:
    """A square of 4 x 4 crops stays as it is; a slim one is white at its sides."""
    held = picture(1344, 1344)
    given = inputs(made["phi3v"][1], held)
    assert given["image_sizes"].as_numpy().tolist() == [[1344, 1344]]
    assert given["num_image_tokens"].as_numpy().tolist() == [[17 * 144 + 1 + 5 * 12]]
    levels = ((held / 255 - MEAN) / STD).transpose(2, 0, 1)
    found = given["pixel_values"].as_numpy()[0]
    for place in range(16):
        top, left = place // 4 * 336, place % 4 * 336
        assert np.abs(found[1 + place] - levels[:, top : top + 336, left : left + 336]).max() < 1e-5
    weights = cubic(1344, 336)
    assert np.abs(found[0] - weights @ levels @ weights.T).max() < 1e-4
    slim = inputs(made["phi3v"][1], picture(30, 100))
    assert slim["image_sizes"].as_numpy().tolist() == [[2016, 672]]  # 604 wide, 34 white at each side
    first = slim["pixel_values"].as_numpy()[0, 1]
    white = ((1 - MEAN) / STD)[:, None, None]
    assert np.abs(first[:, :, :34] - white).max() < 1e-6
    assert np.abs(first[:, :, 34:] - white).max() > 1
    assert (slim["input_ids"].as_numpy() == -1).sum() == 13 * 144 + 1 + 7 * 12


def test_files_of_every_mode_are_decoded() -> None:
    held = picture(20, 12)
    assert np.array_equal(decode(png(held)), held)
    see_through = np.concatenate([held, np.full((12, 20, 1), 7, np.uint8)], 2)
    assert np.array_equal(decode(png(see_through, "RGBA")), held)
    gray = held[:, :, 0]
    assert np.array_equal(decode(png(gray, "L")), np.repeat(gray[:, :, None], 3, 2))
    deep = (gray.astype(np.uint16) << 8) + 99
    file = io.BytesIO()
    Image.fromarray(deep).save(file, "PNG")
    assert np.array_equal(decode(file.getvalue()), np.repeat(gray[:, :, None], 3, 2))
    assert np.abs(decode(png(held, kind="JPEG", quality=100, subsampling=0)).astype(int) - held).max() < 6


def test_operations_by_themselves() -> None:
    held = picture(10, 8)
    assert np.array_equal(CenterCrop(height=4, width=6)(held), held[2:6, 2:8])
    assert np.array_equal(DecodeImage(color_space="bgr")(png(held)), held[:, :, ::-1])
    wide = scale(held, 8, 20, "LINEAR")
    middle = 0.25 * held[:, :-1] + 0.75 * held[:, 1:].astype(np.float64)
    assert np.abs(wide[:, 2::2] - middle).max() <= 0.5 + 1e-6
    for size, wanted in (((500, 700), (196, 280)), ((10, 10), (56, 56)), ((100, 100), (112, 112))):
        found = Resize(smart_resize=1, max_pixels=60000)(np.zeros((*size, 3), np.uint8)).shape[:2]
        assert found == wanted


# Tokens


def by_formula(kind: str, held: dict[str, Array], given: og.NamedTensors) -> tuple[Array, Array]:
    """The embeddings of a prompt, and its places, in NumPy."""
    ids = given["input_ids"].as_numpy()[0]
    table = held["table"].astype(np.float64)
    found = table[np.maximum(ids, 0)]
    places = np.broadcast_to(np.arange(len(ids)), (3, len(ids))).copy()
    if "pixel_values" not in given:
        return found, places
    pixels = given["pixel_values"].as_numpy().astype(np.float64)
    if kind == "phi3v":
        count = int(given["num_image_tokens"].as_numpy().sum())
        angles = (np.arange(count, dtype=np.float32)[:, None] * held["turn"]).astype(np.float64)
        found[ids < 0] = np.sin(angles) + held["spread"] * pixels.mean()
    elif kind == "gemma3":
        squares = pixels.reshape(-1, 3, 16, 4, 16, 4)
        found[ids == IMAGE] = np.einsum("nciajb,wcab->nijw", squares, held["patch"]).reshape(-1, table.shape[1])
    else:
        grids = given["image_grid_thw"].as_numpy().tolist()
        is_uniform = all(grid == grids[0] for grid in grids)
        features = (pixels @ held["patch"]).reshape(-1, 32) @ held["merge"]
        found[ids == IMAGE] = features * (len(grids) if is_uniform else 1)
        places = places_by_formula(ids.tolist(), grids)
    return found, places


def places_by_formula(ids: list[int], grids: list[list[int]]) -> Array:
    """A picture's tokens have one time, and rows and columns from it on; text follows the largest."""
    found: list[tuple[int, int, int]] = []
    at, following, left = 0, 0, iter(grids)
    while at < len(ids):
        if ids[at] != IMAGE:
            found.append((following,) * 3)
            at, following = at + 1, following + 1
            continue
        _, rows, columns = next(left)
        for row in range(rows // 2):
            for column in range(columns // 2):
                found.append((following, following + row, following + column))
                at += 1
        following += max(rows, columns) // 2
    return np.array(found).T


def greedy(kind: str, held: dict[str, Array], given: og.NamedTensors, more: int = 6) -> list[int]:
    text = {name.partition(".")[2]: value for name, value in held.items() if name.startswith("text.")}
    embeddings, places = by_formula(kind, held, given)
    tokens = given["input_ids"].as_numpy()[0].tolist()
    for _ in range(more):
        tokens.append(int(text_logits(text, embeddings, places).argmax()))
        embeddings = np.concatenate([embeddings, held["table"][tokens[-1:]]])
        places = np.concatenate([places, np.full((3, 1), places.max() + 1)], 1)
    return [int(token) for token in tokens]


SETS = {
    "none": (),
    "one": (picture(120, 90),),
    "two alike": (picture(100, 70), picture(100, 70, 1)),
    "two of other sizes": (picture(100, 70), picture(60, 160, 1)),
}
RUNS = [(kind, name) for kind in ("gemma3", "qwen2_5_vl") for name in SETS] + [("phi3v", "none"), ("phi3v", "one")]


@pytest.mark.parametrize(("kind", "name"), RUNS, ids=[f"{kind}-{name}" for kind, name in RUNS])
def test_tokens_are_those_of_the_models_in_numpy(made: Made, kind: str, name: str) -> None:
    _, model, held = made[kind]
    given = inputs(model, *SETS[name])
    text = {own.partition(".")[2]: value for own, value in held.items() if own.startswith("text.")}
    generator = start(model, given)
    expected = text_logits(text, *by_formula(kind, held, given))
    assert np.abs(generator.get_logits()[0, 0] - expected).max() < 1e-4 * np.abs(expected).max()
    assert finish(generator) == greedy(kind, held, given)
    if SETS[name]:
        assert np.array_equal(generator.get_input("pixel_values"), given["pixel_values"].as_numpy())
        assert generator.get_output("image_features").shape[-1] == 16


def test_pictures_of_phi_go_where_their_numbers_stand(made: Made) -> None:
    """A picture may stand twice, and the second before the first."""
    given = inputs(made["phi3v"][1], picture(30, 30), picture(90, 30), prompt="<|image_2|>a<|image_1|><|image_2|>")
    counts = given["num_image_tokens"].as_numpy().reshape(-1).tolist()
    assert counts == [17 * 144 + 1 + 5 * 12, 13 * 144 + 1 + 3 * 12]
    ids = given["input_ids"].as_numpy()[0]
    assert [int(ids[0]), int((ids == -1).sum()), int((ids == -2).sum())] == [-2, counts[0], 2 * counts[1]]
    assert made["phi3v"][1].create_multimodal_processor().decode(ids) == "a"


@pytest.mark.parametrize("kind", ["gemma3", "qwen2_5_vl"])
def test_the_likeliest_of_beams_is_at_least_as_likely(made: Made, kind: str) -> None:
    _, model, held = made[kind]
    given = inputs(model, picture(100, 70))
    text = {own.partition(".")[2]: value for own, value in held.items() if own.startswith("text.")}

    def chance(tokens: list[int]) -> float:
        embeddings, places = by_formula(kind, held, given)
        total = 0.0
        for token in tokens[len(embeddings) :]:
            logits = text_logits(text, embeddings, places)
            shifted = logits - logits.max()
            total += float(shifted[token] - np.log(np.exp(shifted).sum()))
            embeddings = np.concatenate([embeddings, held["table"][[token]]])
            places = np.concatenate([places, np.full((3, 1), places.max() + 1)], 1)
        return total

    options: dict[str, Any] = {"num_beams": 4, "min_length": LONGEST, "past_present_share_buffer": False}
    beams = finish(start(model, given, 3, **options))
    assert chance(beams) >= chance(finish(start(model, given, 3, min_length=LONGEST))) - 1e-6


@pytest.mark.parametrize("kind", ["gemma3", "qwen2_5_vl"])
@pytest.mark.parametrize("shared", [True, False])
def test_sequences_go_back_and_on(made: Made, kind: str, shared: bool) -> None:
    """What is generated after a rewind is what was; a second picture comes after an answer."""
    _, model, held = made[kind]
    given = inputs(model, picture(100, 70))
    count = given["input_ids"].as_numpy().size
    generator = start(model, given, 6, past_present_share_buffer=shared)
    said = finish(generator)
    generator.rewind_to(count + 2)
    assert finish(generator) == said
    generator.rewind_to(0)
    generator.append_tokens(given["input_ids"])
    assert finish(generator) == said

    more = inputs(model, picture(60, 90, 2))
    generator = start(model, given, 400, past_present_share_buffer=shared)
    for _ in range(2):
        generator.generate_next_token()
    before = generator.get_sequence(0)
    generator.set_inputs(more)
    whole = og.NamedTensors()
    for name in ("pixel_values", "image_grid_thw"):
        if name in given:
            both = [own[name].as_numpy() for own in (given, more)]
            whole[name] = np.concatenate(both)
    whole["input_ids"] = np.concatenate([before[None], more["input_ids"].as_numpy()], 1)
    embeddings, places = by_formula(kind, held, whole)
    text = {own.partition(".")[2]: value for own, value in held.items() if own.startswith("text.")}
    expected = text_logits(text, embeddings, places)
    assert np.abs(generator.get_logits()[0, 0] - expected).max() < 1e-3 * np.abs(expected).max()


def test_a_long_prompt_is_not_cut_within_pictures(made: Made) -> None:
    _, model, held = made["gemma3"]
    given = inputs(model, picture(100, 70))
    assert finish(start(model, given, chunk_size=50)) == greedy("gemma3", held, given)


def test_prompts_of_pictures_alone(made: Made) -> None:
    for kind in ("gemma3", "qwen2_5_vl"):
        given = inputs(made[kind][1], picture(64, 64), prompt="")
        assert finish(start(made[kind][1], given)) == greedy(kind, made[kind][2], given)


# The server


def answers(made: Made, kind: str, *bodies: Any) -> list[tuple[int, Any]]:
    """What a server says to requests for chat completions."""
    pytest.importorskip("starlette", reason="a server is its")
    pytest.importorskip("uvicorn", reason="likewise")
    from anydml.genai.batching import Batcher
    from anydml.genai.openai_requests import Wrong
    from anydml.genai.server import Service

    batcher = Batcher(made[kind][1], 2, 8, LONGEST)
    service = Service(made[kind][1], "tiny", None, batcher, is_local=True)

    async def go(body: Any) -> tuple[int, Any]:
        try:
            asked, work, events = await service._submit(body, is_chat=True)
            async for _ in service._parts(asked, work, events):
                pass
            return 200, work.search.sequence(0)[work.prompt_length :].tolist()
        except Wrong as error:
            return error.status, str(error)

    try:
        return [asyncio.run(go(body)) for body in bodies]
    finally:
        batcher.close()


def said(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}], "max_tokens": 5, "temperature": 0, **more}


def image_part(held: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(held).decode()}"}}


@pytest.mark.parametrize("kind", list(MARK))
def test_a_server_takes_pictures(made: Made, kind: str) -> None:
    text = {"type": "text", "text": "what?"}
    mark = MARK[kind].format(1) + ("\n" if kind == "phi3v" else "")
    model = made[kind][1]
    expected = []
    for seed in (0, 1):
        prompt = f"<|user|>{mark}what?<|end|><|assistant|>"
        given = inputs(model, picture(90, 60, seed), prompt=prompt)
        expected.append((200, finish(start(model, given, 5))[given["input_ids"].as_numpy().size :]))
    plain = inputs(model, prompt="<|user|>what?<|end|><|assistant|>")
    expected.append((200, finish(start(model, plain, 5))[plain["input_ids"].as_numpy().size :]))
    bodies = [said(image_part(png(picture(90, 60, seed))), text) for seed in (0, 1)]
    assert answers(made, kind, *bodies, said(text)) == expected


@pytest.mark.parametrize("kind", list(MARK))
def test_a_conversation_shows_pictures(made: Made, kind: str, tmp_path: Path) -> None:
    """Before a question, one in a later one; a question without goes on from what was taken in."""
    model = made[kind][1]
    for seed in (0, 1):
        (tmp_path / f"{seed}.png").write_bytes(png(picture(90, 60, seed)))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=LONGEST)
    talk, processor = Conversation(model, og.Tokenizer(model), params, limit=4), model.create_multimodal_processor()
    taken, whole, held = list[int](), list[int](), list[bytes]()
    for shown, question in ("0", "what?"), ("", "why?"), ("1", "and this?"):
        if shown:
            held.append(png(picture(90, 60, int(shown))))
            talk.show(str(tmp_path / f"{shown}.png"))
        answer = talk.ask(question, lambda _: None)
        taken.append(answer.prompt)
        prompt = talk.tokenizer.apply_chat_template(talk.messages[:-1])
        given = processor(prompt, images=og.Images.open_bytes(*held))
        whole.append(given["input_ids"].as_numpy().size)
        expected = finish(start(model, given, 4))[whole[-1] :]
        ends = set(model.config.eos_token_ids)
        assert answer.text == talk.tokenizer.decode([one for one in expected if one not in ends])
        assert talk.messages[-2]["content"].endswith(question)
    assert (taken[0], taken[2]) == (whole[0], whole[2])
    assert taken[1] <= whole[1] - whole[0]


def test_a_picture_that_cannot_be_shown_is_told(made: Made, tmp_path: Path) -> None:
    """A question with one that is no picture is taken back; a model of text takes none."""
    (tmp_path / "no.png").write_bytes(b"no picture")
    (tmp_path / "yes.png").write_bytes(png(picture(60, 60)))
    path, text = str(made["gemma3"][0]), str(make_folder(tmp_path / "text"))
    lines = f"/image\n/image {tmp_path}/gone.png\n/image {tmp_path}/no.png\nhi\nho\n"
    found = CliRunner().invoke(app, ["chat", path, "--quiet", "--max-tokens", "1", "--max-length", "900"], input=lines)
    assert found.exit_code == 0, found.output
    told = found.stdout.splitlines()
    assert "must be followed by the path" in told[0]
    assert "there is no file" in told[1]
    assert "files of PNG, JPEG" in told[2]
    assert "Error" not in found.output
    for folder, file, message in (
        (path, "gone.png", "there is no file"),
        (text, "yes.png", "of type 'llama', takes no pictures; ask in words"),
    ):
        refused = CliRunner().invoke(app, ["chat", folder, "--image", str(tmp_path / file)], input="hi\n")
        assert refused.exit_code != 0
        assert message in refused.stderr
    shown = CliRunner().invoke(
        app, ["chat", path, "--image", str(tmp_path / "yes.png"), "--max-tokens", "1"], input="hi"
    )
    assert int(shown.stdout.rsplit("[", 1)[1].split()[0]) > 256  # tokens in


REQUESTS = [
    ("nothing is fetched from elsewhere", {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}),
    ("nothing is fetched from elsewhere", {"type": "image_url", "image_url": {"url": "data:text/html;base64,AA=="}}),
    ("must hold a file in base64", {"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}),
    ("nothing is fetched from elsewhere", {"type": "image_url"}),
    ("must be of text, or image_url; it is 'input_audio'", {"type": "input_audio"}),
    ("files of PNG, JPEG", image_part(b"hello")),
    ("must be of text, or image_url", {}),
]


@pytest.mark.parametrize(("told", "part"), REQUESTS, ids=[str(place) for place in range(len(REQUESTS))])
def test_a_server_refuses_what_is_no_picture(made: Made, told: str, part: Any) -> None:
    ((status, message),) = answers(made, "gemma3", said(part))
    assert (status, told in message) == (400, True), message


def test_a_picture_more_in_words_is_refused(made: Made) -> None:
    words = {"type": "text", "text": "and <start_of_image>"}
    ((status, message),) = answers(made, "gemma3", said(image_part(png(picture(20, 20))), words))
    assert (status, "for each picture; got 2 for 1 pictures" in message) == (400, True), message


# What is wrong


def ask(made: Made, kind: str, prompt: Any = "x", *pictures: bytes, **more: Any) -> object:
    images = og.Images.open_bytes(*pictures) if pictures else None
    return made[kind][1].create_multimodal_processor()(prompt, images=images, **more)


def set_other(made: Made, **changed: Any) -> None:
    model = made["gemma3"][1]
    given = inputs(model, picture(64, 64))
    for name, value in changed.items():
        given[name] = value
    start(model, given)


GOOD = png(picture(64, 64))
WRONG: list[tuple[str, Callable[[Made], object]]] = [
    ("files of PNG, JPEG.*got .*hello", lambda m: ask(m, "gemma3", "<start_of_image>", b"hello")),
    ("the picture cannot be decoded", lambda m: ask(m, "gemma3", "<start_of_image>", GOOD[:-30])),
    ("<start_of_image> for each picture; got 0 for 1", lambda m: ask(m, "gemma3", "x", GOOD)),
    ("<start_of_image> for each picture; got 1 for 0", lambda m: ask(m, "gemma3", "<start_of_image>")),
    ("vision_start|> for each picture; got 0 for 1", lambda m: ask(m, "qwen2_5_vl", "x", GOOD)),
    ("<.image_1.>.* for each picture; got 0 for 1", lambda m: ask(m, "phi3v", "x", GOOD)),
    ("must be <.image_1.> to <.image_1.>; got .3", lambda m: ask(m, "phi3v", "<|image_3|>", GOOD)),
    ("there must be one prompt; got 2", lambda m: ask(m, "gemma3", ["x", "y"])),
    ("takes no sound", lambda m: ask(m, "gemma3", "x", audios=og.Audios.open_bytes(wav(np.zeros(99))))),
    ("200 times the other", lambda m: ask(m, "qwen2_5_vl", MARK["qwen2_5_vl"], png(picture(900, 4)))),
    (
        "pictures go with one prompt alone",
        lambda m: start(m["gemma3"][1], inputs(m["gemma3"][1], picture(9, 9)), batch_size=2),
    ),
    ("pixel_values must be of shape", lambda m: set_other(m, pixel_values=np.zeros((1, 3, 65, 64), np.float32))),
    ("tokens must be 0 to", lambda m: set_other(m, input_ids=np.array([[-1]]))),
]  # fmt: skip


@pytest.mark.parametrize(("told", "act"), WRONG, ids=[told[:30] for told, _ in WRONG])
def test_what_is_wrong_is_told(made: Made, told: str, act: Callable[[Made], object]) -> None:
    with pytest.raises(RuntimeError, match=told):
        act(made)


def test_tokens_that_are_fewer_than_a_picture_has_are_told(made: Made) -> None:
    model = made["qwen2_5_vl"][1]
    given = inputs(model, picture(100, 70))
    ids = given["input_ids"].as_numpy()
    for cut, told in ((ids[:, 3:], "for each of 1 pictures; got 0"), (ids[:, :6], "must have 12 tokens; got 4")):
        given["input_ids"] = cut
        with pytest.raises(RuntimeError):  # the embeddings themselves may be first to tell
            start(model, given)
        generator = start(model, inputs(model))
        embedder = generator._decoder.embedder
        assert embedder is not None
        embedder._seen[0] = cut[0], None, given["image_grid_thw"].as_numpy()
        with pytest.raises(RuntimeError, match=told):
            embedder.places(cut[0], 0)


CONFIGS: list[tuple[str, Callable[[Any], object]]] = [
    ("must have model.vision.filename", lambda c: c["vision"].pop("filename")),
    ("must have model.embedding.filename", lambda c: c.pop("embedding")),
    ("the vision model has no output 'x'", lambda c: c["vision"]["outputs"].update(image_features="x")),
    ("the embedding model has no input 'x'", lambda c: c["embedding"]["inputs"].update(image_features="x")),
    ("the model has no input 'x'", lambda c: c["decoder"]["inputs"].update(inputs_embeds="x")),
    ("model.vision.pipeline is not run here", lambda c: c["vision"].update(pipeline=[{"a": {}}])),
]


@pytest.mark.parametrize(("told", "change"), CONFIGS, ids=[told[:40] for told, _ in CONFIGS])
def test_what_is_wrong_with_a_configuration_is_told(tmp_path: Path, told: str, change: Callable[[Any], object]) -> None:
    make_vision(tmp_path, "gemma3")
    data = vision_config("gemma3")
    change(data["model"])
    (tmp_path / "genai_config.json").write_text(json.dumps(data))
    with pytest.raises(RuntimeError, match=told):
        og.Generator(model := og.Model(str(tmp_path)), og.GeneratorParams(model))


def steps(kind: str, change: Callable[[list[Any]], object]) -> dict[str, Any]:
    found = vision_processor(kind)
    listed = [entry["operation"] for entry in found["processor"]["transforms"]]
    change(listed)
    found["processor"]["transforms"] = [{"operation": one} for one in listed]
    return found


OTHER = {"interpolation": "NEAREST"}
CROP = {"type": "CenterCrop", "attrs": {"width": 999, "height": 9}}
PROCESSORS: list[tuple[str, dict[str, Any]]] = [
    ("'Llama3ImageTransform' is not done", steps("gemma3", lambda ops: ops[0].update(type="Llama3ImageTransform"))),
    ("interpolation must be one of LINEAR", steps("gemma3", lambda ops: ops[1]["attrs"].update(OTHER))),
    ("color_space must be one of RGB, BGR", steps("gemma3", lambda ops: ops[0]["attrs"].update(color_space="HSV"))),
    ("mean must have 3 numbers; got 1", steps("gemma3", lambda ops: ops[3]["attrs"].update(mean=[1.0]))),
    ("mean must be a list", steps("gemma3", lambda ops: ops[3]["attrs"].update(mean=1))),
    ("dims must be 0, 1 and 2", steps("gemma3", lambda ops: ops[4]["attrs"].update(dims=[0, 0, 1]))),
    ("the last operation.*must be PatchImage", steps("qwen2_5_vl", lambda ops: ops.pop())),
    ("filled by 2 x 2 patches", steps("qwen2_5_vl", lambda ops: ops[2]["attrs"].update(smart_resize=0))),
    ("must be 999 x 9 at least", steps("gemma3", lambda ops: ops[1].update(CROP))),
]  # fmt: skip


@pytest.mark.parametrize(("told", "data"), PROCESSORS, ids=[told[:30] for told, _ in PROCESSORS])
def test_what_is_wrong_with_a_processor_is_told(tmp_path: Path, told: str, data: dict[str, Any]) -> None:
    kind = data["processor"]["name"]
    make_vision(tmp_path, kind)
    (tmp_path / "processor_config.json").write_text(json.dumps(data))
    with pytest.raises(RuntimeError, match=told):
        inputs(og.Model(str(tmp_path)), picture(64, 64))


def test_a_picture_needs_pillow(monkeypatch: pytest.MonkeyPatch, made: Made) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(RuntimeError, match=r"a picture needs PIL; pip install 'anydml\[genai\]'"):
        ask(made, "gemma3", "<start_of_image>", GOOD)


def test_bytes_are_tokens() -> None:
    """The tokenizer's special tokens stand where the models look for them."""
    assert BYTES + 5 == IMAGE
