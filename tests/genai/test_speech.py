"""Models of speech: features by a formula of their own, tokens by the model in NumPy, and what is wrong is told."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are made with it")

import anydml.genai as og
from anydml.genai.audio import lowpass, mel_filters, read_wave, resample
from anydml.genai.batching import Batcher
from anydml.onnx import program_cache
from anydml.onnx.lower import trace
from anydml.runtime.planning import Prepared
from media_folders import BEGIN, FRAMES, MELS, RATE, WORDS, logits, make_speech, speech_config, speech_processor, wav

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Array = np.ndarray[Any, Any]


def sound(seconds: float = 0.7, rate: int = RATE, seed: int = 0) -> Array:
    """Tones that rise, over noise."""
    time = np.arange(int(rate * seconds)) / rate
    noise = np.random.default_rng(seed).standard_normal(len(time))
    tones = 0.4 * np.sin(2 * np.pi * (300 + (seed + 1) * 200 * time) * time) + 0.2 * np.sin(2 * np.pi * 1700 * time)
    found: Array = tones + 0.01 * noise
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, og.Model, dict[str, Array]]:
    path = tmp_path_factory.mktemp("speech")
    held = make_speech(path)
    return path, og.Model(str(path)), held


def inputs(model: og.Model, *files: bytes) -> og.NamedTensors:
    return model.create_multimodal_processor()([BEGIN + "a"] * len(files), audios=og.Audios.open_bytes(*files))


def start(model: og.Model, given: og.NamedTensors, **options: Any) -> og.Generator:
    params = og.GeneratorParams(model)
    params.set_search_options(**options)
    generator = og.Generator(model, params)
    generator.set_inputs(given)
    return generator


def finish(generator: og.Generator, index: int = 0) -> list[int]:
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(index)]


# Features


def band_edges(mels: int) -> list[float]:
    """Slaney's mel scale: 15 mels of 200 / 3 hertz each, and 27 more for each factor of 6.4."""
    top = 15 + 27 * np.log(8000 / 1000) / np.log(6.4)
    return [float(m * 200 / 3 if m < 15 else 1000 * 6.4 ** ((m - 15) / 27)) for m in np.linspace(0, top, mels + 2)]


def by_formula(samples: Array, mels: int = MELS, seconds: int = 1) -> Array:
    """Whisper's features by a Fourier transform written out, and bands drawn by interpolation."""
    n, hop = 400, 160
    padded = np.pad(samples.astype(np.float64), n // 2)
    frames = np.stack([padded[at : at + n] for at in range(0, len(samples) + 1, hop)])[:-1]
    angles = -2j * np.pi * np.outer(np.arange(n), np.arange(n // 2 + 1)) / n
    power = np.abs((frames * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n))) @ np.exp(angles)) ** 2
    edges = band_edges(mels)
    hertz = np.arange(n // 2 + 1) * RATE / n
    bands = [np.interp(hertz, edges[i : i + 3], [0, 1, 0]) * 2 / (edges[i + 2] - edges[i]) for i in range(mels)]
    found = np.log10(np.maximum(power @ np.array(bands).T, 1e-10)).T
    found = (np.maximum(found, found.max() - 8) + 4) / 4
    return np.pad(found, ((0, 0), (0, seconds * 100 - found.shape[1])), constant_values=found.max() - 2)


def test_features_are_the_formulas(made: tuple[Path, og.Model, dict[str, Array]]) -> None:
    samples = sound()
    given = inputs(made[1], wav(samples))
    features = given["audio_features"].as_numpy()
    assert (features.dtype, features.shape) == (np.float32, (1, MELS, FRAMES))
    expected = by_formula(np.round(samples * 32767) / 32768)
    assert np.abs(features[0] - expected).max() < 2e-5  # FLOAT32's rounding of logarithms
    assert given["input_ids"].as_numpy().tolist() == [[WORDS - 1, ord("a")]]
    assert given["input_ids"].as_numpy().dtype == np.int32


@pytest.mark.parametrize("mels", [80, 128])
def test_filters_are_triangles_between_neighbouring_bands(mels: int) -> None:
    """Those of the published models."""
    edges = band_edges(mels)
    hertz = np.arange(201) * RATE / 400
    expected = [np.interp(hertz, edges[i : i + 3], [0, 1, 0]) * 2 / (edges[i + 2] - edges[i]) for i in range(mels)]
    assert np.abs(mel_filters(400, mels) - np.array(expected)).max() < 1e-12


@pytest.mark.parametrize(("width", "error"), [(1, 1 / 127), (2, 1 / 2**15), (3, 1 / 2**23), (4, 1 / 2**24)])
def test_samples_of_every_size_are_read(width: int, error: float) -> None:
    samples = sound(0.01)
    found, rate = read_wave(wav(samples, 8000, width))
    assert rate == 8000
    assert found.shape == (len(samples), 1)
    assert np.abs(found[:, 0] - samples).max() <= error


def chunks(coding: int, bits: int, held: bytes, *before: tuple[bytes, bytes], channels: int = 1) -> bytes:
    """A WAV file of chunks."""
    size = channels * bits // 8
    fmt = struct.pack("<HHIIHH", coding, channels, RATE, RATE * size, size, bits)
    if coding == 0xFFFE:
        fmt += struct.pack("<HHIH14s", 22, bits, 4, 3, b"\0" * 14)
    body = b"".join(
        name + struct.pack("<I", len(one)) + one + b"\0" * (len(one) % 2)
        for name, one in (*before, (b"fmt ", fmt), (b"data", held))
    )
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


@pytest.mark.parametrize(("coding", "dtype"), [(3, "<f4"), (3, "<f8"), (0xFFFE, "<f4")])
def test_samples_that_are_floats_are_read_behind_other_chunks(coding: int, dtype: str) -> None:
    samples = sound(0.01).astype(dtype)
    file = chunks(coding, samples.itemsize * 8, samples.tobytes(), (b"LIST", b"odd"))
    assert np.array_equal(read_wave(file)[0][:, 0], samples.astype(np.float32))


def test_two_channels_are_mixed_and_long_sounds_are_cut(made: tuple[Path, og.Model, dict[str, Array]]) -> None:
    samples = np.round(sound(1.5) * 2**14) / 2**14
    both = np.stack([samples, np.zeros_like(samples)], 1)
    found = inputs(made[1], chunks(3, 32, both.astype("<f4").tobytes(), channels=2))["audio_features"].as_numpy()
    alone = inputs(made[1], chunks(3, 32, (samples[:RATE] / 2).astype("<f4").tobytes()))["audio_features"].as_numpy()
    assert np.array_equal(found, alone)


@pytest.mark.parametrize("rate", [22050, 44100, 48000])
def test_a_tone_keeps_its_pitch_at_another_rate(rate: int) -> None:
    """A tone far below the cutoff is the same tone; one beyond half of the new rate is weaker."""
    time = np.arange(rate) / rate
    low, high = (np.sin(2 * np.pi * hertz * time).astype(np.float32) for hertz in (440, 9500))
    found = resample(lowpass(low, RATE / 2, rate), rate, RATE)
    assert len(found) - RATE in (0, 1)  # counted in FLOAT32
    spectrum = np.abs(np.fft.rfft(found[RATE // 4 : RATE // 4 + RATE // 2]))
    assert int(spectrum.argmax()) * 2 == 440
    weak = resample(lowpass(high, RATE / 2, rate), rate, RATE)
    assert np.abs(weak[100:-100]).max() < 0.6 * np.abs(found).max()


def test_the_filter_is_butterworths() -> None:
    """A constant passes, and half of the power at the cutoff."""
    step = lowpass(np.ones(400, np.float32), 8000, 44100)
    assert abs(step[-1] - 1) < 1e-6
    cosine = np.cos(2 * np.pi * 8000 / 44100 * np.arange(4000)).astype(np.float32)
    assert abs(np.abs(lowpass(cosine, 8000, 44100)[1000:]).max() - np.sqrt(0.5)) < 0.02


# Tokens


def greedy(held: dict[str, Array], features: Array, length: int) -> list[int]:
    tokens = [WORDS - 1, ord("a")]
    while len(tokens) < length:
        tokens.append(int(logits(held, features, tokens).argmax()))
    return tokens


def test_tokens_are_those_of_the_model_in_numpy(made: tuple[Path, og.Model, dict[str, Array]]) -> None:
    _, model, held = made
    told = set()
    for seed in range(3):
        given = inputs(model, wav(sound(seed=seed)))
        features = given["audio_features"].as_numpy()
        generator = start(model, given)
        expected = logits(held, features[0], [WORDS - 1, ord("a")])
        assert np.abs(generator.get_logits()[0, 0] - expected).max() < 1e-4 * np.abs(expected).max()
        assert finish(generator) == greedy(held, features[0], 12)
        told.add(tuple(finish(generator)))
        assert np.array_equal(generator.get_input("audio_features"), features)
        assert generator.get_output("hidden_states").shape == (1, FRAMES // 2, 16)
    assert len(told) == 3  # what is said depends on the sound


def test_several_sounds_are_a_batch(made: tuple[Path, og.Model, dict[str, Array]]) -> None:
    _, model, held = made
    given = inputs(model, wav(sound(seed=1)), wav(sound(0.3, seed=2)))
    generator = start(model, given, batch_size=2)
    finish(generator)
    for row in range(2):
        assert finish(generator, row) == greedy(held, given["audio_features"].as_numpy()[row], 12)


def test_beams_are_the_likeliest_sequences(made: tuple[Path, og.Model, dict[str, Array]]) -> None:
    """As many beams as words, for two tokens: all sequences are looked at but those after the worst words."""
    _, model, held = made
    given = inputs(model, wav(sound()))
    features = given["audio_features"].as_numpy()[0]

    def chances(tokens: list[int]) -> Array:
        found = logits(held, features, tokens)
        shares: Array = found - found.max() - np.log(np.exp(found - found.max()).sum())
        return shares

    begin = [WORDS - 1, ord("a")]
    firsts = np.argsort(-chances(begin))[:16]
    pairs = [
        (float(chances(begin)[a] + chances([*begin, int(a)])[b]), [*begin, int(a), b])
        for a in firsts
        for b in range(WORDS)
    ]
    best = max(pairs)[1]
    assert finish(start(model, given, max_length=4, num_beams=16)) == best


def test_what_was_said_can_be_said_again(made: tuple[Path, og.Model, dict[str, Array]]) -> None:
    model = made[1]
    given = inputs(model, wav(sound()))
    generator = start(model, given)
    said = finish(generator)
    generator.rewind_to(0)
    generator.append_tokens(given["input_ids"])
    assert finish(generator) == said
    generator.rewind_to(4)
    assert finish(generator) == said


def test_a_longer_sequence_is_not_planned_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder's step sees every key: no mask of the length of the sequence is made for it. Products with so many
    columns, and copies of so many rows, are planned by few thresholds.
    """
    make_speech(tmp_path, seed=5)
    model = og.Model(str(tmp_path))
    given = inputs(model, wav(sound()))
    traced, planned = list[int](), list[int]()
    plan = Prepared.plan

    def planning(*arguments: Any, **options: Any) -> Any:
        planned.append(generator.token_count())
        return plan(*arguments, **options)

    def watch(source: Any, shapes: Any, *arguments: Any, **options: Any) -> Any:
        traced.append(generator.token_count())
        return trace.trace(source, shapes, *arguments, **options)

    monkeypatch.setattr(program_cache, "trace", watch)
    monkeypatch.setattr(Prepared, "plan", planning)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=30, min_length=30)
    generator = og.Generator(model, params)
    generator.set_inputs(given)
    finish(generator)
    assert [count for count in traced if count > 12] == []
    assert traced
    assert [count for count in planned if count > 4] == [8, 9, 16]


def test_texts_come_of_tokens(made: tuple[Path, og.Model, dict[str, Array]]) -> None:
    processor = made[1].create_multimodal_processor()
    assert processor.decode(np.array([WORDS - 1, *b"heard"], np.int32)) == "heard"
    stream = processor.create_stream()
    assert "".join(stream.decode(token) for token in "é!".encode()) == "é!"


def test_files_are_read_from_paths(made: tuple[Path, og.Model, dict[str, Array]], tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(sound()))
    audios = og.Audios.open(str(tmp_path / "a.wav"))
    assert (len(audios), repr(audios)) == (1, "Audios(1)")
    found = made[1].create_multimodal_processor()(BEGIN + "a", audios=audios)
    assert np.array_equal(
        found["audio_features"].as_numpy(), inputs(made[1], wav(sound()))["audio_features"].as_numpy()
    )


def test_float16_takes_its_own_features(tmp_path: Path) -> None:
    held = make_speech(tmp_path, dtype="float16")
    model = og.Model(str(tmp_path))
    given = inputs(model, wav(sound()))
    features = given["audio_features"].as_numpy()
    assert features.dtype == np.float16
    expected = logits(held, features[0], [WORDS - 1, ord("a")])
    found = start(model, given).get_logits()[0, 0]
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


# What is wrong


def ask(model: og.Model, *files: bytes, prompt: Any = BEGIN, **more: Any) -> object:
    audios = og.Audios.open_bytes(*files) if files else None
    return model.create_multimodal_processor()(prompt, audios=audios, **more)


WRONG: list[tuple[str, Callable[[og.Model], object]]] = [
    ("there must be sound; got none; processor", ask),
    ("there must be a prompt", lambda m: ask(m, wav(sound()), prompt=None)),
    ("a prompt for each sound; got 1 prompts and 2 sounds", lambda m: ask(m, wav(sound()), wav(sound()))),
    ("prompt must be a string", lambda m: ask(m, wav(sound()), prompt=[5])),
    ("takes no images", lambda m: ask(m, wav(sound()), images=og.Images.open_bytes(b"x"))),
    ("audios must be Audios", lambda m: m.create_multimodal_processor()("x", audios=5)),  # type: ignore[arg-type]
    ("must be in a WAV file; got FLAC; convert it", lambda m: ask(m, b"fLaC" + bytes(40))),
    ("must be in a WAV file; got MP3", lambda m: ask(m, b"ID3" + bytes(40))),
    ("must be in a WAV file; got no known format", lambda m: ask(m, b"hello")),
    ("must have a fmt chunk", lambda m: ask(m, b"RIFF\x04\0\0\0WAVE")),
    ("must have a data chunk", lambda m: ask(m, chunks(1, 16, b"")[:36])),
    ("must have 16 bytes", lambda m: ask(m, b"RIFF\x04\0\0\0WAVEfmt \x02\0\0\0\1\0")),
    ("must be whole numbers.*got A-law; convert it", lambda m: ask(m, chunks(6, 8, b"abc"))),
    ("1 to 16 channels; got 99", lambda m: ask(m, chunks(1, 16, b"", channels=99))),
    ("a sample at least", lambda m: ask(m, chunks(1, 16, b""))),
    ("must have 160 samples at least; got 80", lambda m: ask(m, wav(sound(0.005)))),
    ("must have 16000 samples a second or more; got 8000", lambda m: ask(m, wav(sound(rate=8000), 8000))),
    ("there is no file", lambda m: og.Audios.open("/there is none.wav")),
    ("path must be the path of a file", lambda m: og.Audios.open(5)),  # type: ignore[arg-type]
    ("one of the audios at least", lambda m: og.Audios.open()),
    ("audio must be bytes", lambda m: og.Audios.open_bytes("x")),  # type: ignore[arg-type]
    ("audio 1 must not be empty", lambda m: og.Audios.open_bytes(b"x", b"")),
    ("there must be sound before tokens", lambda m: og.Generator(m, og.GeneratorParams(m)).append_tokens([1, 2])),
    ("floats of shape .1, 8, 100.; got float32 of .2, 8, 100.", lambda m: start(m, inputs(m, *[wav(sound())] * 2))),
    ("takes sound, and no requests of text", lambda m: Batcher(m, 2, 2, 20)),
    ("not taken as it is spoken", lambda m: m.create_streaming_processor()),
]


@pytest.mark.parametrize(("told", "act"), WRONG, ids=[told[:30] for told, _ in WRONG])
def test_what_is_wrong_is_told(
    made: tuple[Path, og.Model, dict[str, Array]], told: str, act: Callable[[og.Model], object]
) -> None:
    with pytest.raises(RuntimeError, match=told):
        act(made[1])


def operations(change: Callable[[list[Any]], object]) -> dict[str, Any]:
    found = speech_processor()
    change([entry["operation"] for entry in found["feature_extraction"]["sequence"]])
    return found


WRONG_FILES: list[tuple[str, object]] = [
    ("feature_extraction.sequence must be a list of operations", {}),
    ("feature_extraction.sequence must be a list of operations", {"feature_extraction": {"sequence": []}}),
    ("must be an object with a type", {"feature_extraction": {"sequence": [{}]}}),
    ("operation 'Gemma4LogMel' is not done here", operations(lambda ops: ops[2].update(type="Gemma4LogMel"))),
    ("'STFTNrm' is not done here; did you mean STFTNorm", operations(lambda ops: ops[1].update(type="STFTNrm"))),
    ("no attribute 'hop'; did you mean hop_length", operations(lambda ops: ops[1]["attrs"].update(hop=1))),
    ("must have attribute 'n_mel'", operations(lambda ops: ops[2]["attrs"].pop("n_mel"))),
    ("n_fft must be a whole number; got 'x'", operations(lambda ops: ops[1]["attrs"].update(n_fft="x"))),
    ("attrs must be an object", operations(lambda ops: ops[1].update(attrs=[]))),
]


@pytest.mark.parametrize(("told", "text"), WRONG_FILES, ids=[told[:30] for told, _ in WRONG_FILES])
def test_what_is_wrong_with_a_processor_is_told(tmp_path: Path, told: str, text: object) -> None:
    make_speech(tmp_path)
    (tmp_path / "audio_processor_config.json").write_text(json.dumps(text))
    with pytest.raises(RuntimeError, match=told):
        og.Model(str(tmp_path)).create_multimodal_processor()


@pytest.mark.parametrize(
    ("told", "change"),
    [
        ("must have model.encoder.filename", lambda c: c["model"]["encoder"].pop("filename")),
        ("model.encoder.filename names", lambda c: c["model"]["encoder"].update(filename="gone.onnx")),
        ("no output 'c.0' for it", lambda c: c["model"]["encoder"]["outputs"].update(cross_present_key_names="c.%d")),
    ],
)
def test_what_is_wrong_with_an_encoder_is_told(tmp_path: Path, told: str, change: Callable[[Any], object]) -> None:
    make_speech(tmp_path)
    data = speech_config()
    change(data)
    (tmp_path / "genai_config.json").write_text(json.dumps(data))
    with pytest.raises(RuntimeError, match=told):
        og.Generator(model := og.Model(str(tmp_path)), og.GeneratorParams(model))
