"""Images in DxDispatch models: read, scaled and written as tensors with numbers from 0 to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from anydml.dxdispatch import check_file, load_model
from modelling import ZEROS, write

if TYPE_CHECKING:
    from pathlib import Path

Image: Any = pytest.importorskip("PIL.Image", reason="images need Pillow: make test EXTRAS=image")
PIXELS = np.arange(2 * 4 * 3, dtype="uint8").reshape(2, 4, 3) * 10


def resource(*sizes: int, name: str = "in.png", **others: Any) -> dict[str, Any]:
    values = {"sourcePath": name}
    return {"initialValuesDataType": "FLOAT32", "initialValues": values, "resampleSize": [1, *sizes], **others}


def written(*sizes: int, name: str = "out.png") -> dict[str, Any]:
    return {"type": "writeFile", "resource": "x", "targetPath": name, "dimensions": [1, *sizes]}


def opened(path: Path) -> Any:
    with Image.open(path) as image:
        image.load()
        return image


def prepare(folder: Path, given: dict[str, Any], *commands: Any) -> Path:
    Image.fromarray(PIXELS).save(folder / "in.png")
    return write(folder, {"resources": {"x": given}, "dispatchables": {}, "commands": list(commands)})


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_an_image_is_planes_of_colours_and_comes_back(data_type: str, tmp_path: Path) -> None:
    path = prepare(tmp_path, resource(3, 2, 4, initialValuesDataType=data_type), written(3, 2, 4))
    found = load_model(path).run().resources["x"]
    expected = (PIXELS.transpose(2, 0, 1) / np.float32(255)).astype(data_type.lower())
    np.testing.assert_array_equal(found.reshape(3, 2, 4), expected)
    # A fraction of a 255th is cut off, as DxDispatch has it: FLOAT16 has not every 255th.
    again = (expected.astype("float32") * np.float32(255)).astype("uint8").transpose(1, 2, 0)
    np.testing.assert_array_equal(np.asarray(opened(tmp_path / "out.png")), again)


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_images_are_scaled_and_have_so_many_channels(channels: int, mode: str, tmp_path: Path) -> None:
    path = prepare(tmp_path, resource(channels, 5, 3), written(channels, 5, 3), written(channels, 5, 3, name="out.JPG"))
    found = load_model(path).run().resources["x"].reshape(channels, 5, 3)
    scaled = np.asarray(opened(tmp_path / "in.png").convert(mode).resize((3, 5), Image.Resampling.BICUBIC))
    expected = scaled.reshape(5, 3, channels).transpose(2, 0, 1) / np.float32(255)
    np.testing.assert_array_equal(found, expected)
    assert opened(tmp_path / "out.png").mode == mode
    assert opened(tmp_path / "out.JPG").format == "JPEG"


def test_numbers_beyond_0_and_1_are_cut_off(tmp_path: Path) -> None:
    values = {"initialValuesDataType": "FLOAT32", "initialValues": [-1, 0.5, 7, "nan"]}
    load_model(prepare(tmp_path, values, written(1, 2, 2))).run()
    assert np.asarray(opened(tmp_path / "out.png")).tolist() == [[0, 127], [255, 0]]


WRONG: dict[str, tuple[dict[str, Any], tuple[Any, ...], str]] = {
    "no size": ({**resource(3, 2, 4), "resampleSize": []}, (), "resampleSize must be [1, channels, height, width]"),
    "two channels": (resource(2, 2, 4), (), "resampleSize must be [1, channels, height, width]"),
    "integers": (resource(3, 2, 4, initialValuesDataType="INT32"), (), "must be FLOAT32 or FLOAT16, for an image"),
    "no file": (resource(3, 2, 4, name="no.jpg"), (), "the file cannot be read"),
    "no image": (resource(3, 2, 4, name="model.JPG"), (), "the file"),
    "cropped": (resource(3, 2, 4, resampleMode="crop"), (), "resampleMode must be scale"),
    "no dimensions": (ZEROS, ({**written(), "dimensions": []},), "dimensions must be [1, channels, height, width]"),
    "too many": (ZEROS, (written(3, 2, 2),), "dimensions must multiply to at most 4, the elements of the resource"),
    "an image of bytes": (
        {"initialValuesDataType": "UINT8", "initialValues": [1, 2, 3, 4]},
        (written(1, 2, 2),),
        "a resource must be of FLOAT32 or FLOAT16 to be written as an image",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_image_is_told_so(name: str, tmp_path: Path) -> None:
    given, commands, message = WRONG[name]
    report = check_file(prepare(tmp_path, given, *commands))
    assert message in str(report.faults[0]), report.faults


def test_files_that_only_look_like_images_are_refused(tmp_path: Path) -> None:
    path = prepare(tmp_path, resource(3, 2, 4))
    whole = (tmp_path / "in.png").read_bytes()
    (tmp_path / "in.png").write_bytes(b"GIF89a" + whole)
    assert "must be a JPEG or PNG image" in str(check_file(path).faults[0])
    (tmp_path / "in.png").write_bytes(whole[:50])
    loaded = load_model(path)
    with pytest.raises(Exception, match="must be a JPEG or PNG image"):
        loaded.run()
    huge = whole[:16] + (2**20).to_bytes(4, "big") * 2 + whole[24:]
    (tmp_path / "in.png").write_bytes(huge)
    assert check_file(path).faults
