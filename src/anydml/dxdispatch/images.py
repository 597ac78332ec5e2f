"""Images as tensors, and tensors as images: numbers from 0 to 1, a plane for each colour. Pillow enters here."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.core.errors import Fault, MissingDependencyError, ModelFileError, show
from anydml.core.files import open_plain
from anydml.core.late_imports import import_alone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anydml.dxdispatch.values import Bytes

_FORMATS = {".jpg": "JPEG", ".png": "PNG"}
IMAGES = tuple(_FORMATS)
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's, by the number of channels."""
FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_LARGEST = 2**28
"""Pixels of an image that is read: four channels of it take a gigabyte."""


def load_pillow() -> Any:
    """Pillow's module of images."""
    try:
        import_alone("PIL")
        from PIL import Image
    except ImportError as error:
        fault = Fault(field="image", rule="images need Pillow", way_out="pip install 'anydml[image]'")
        raise MissingDependencyError("image", fault) from error
    return Image


@dataclass(frozen=True, slots=True)
class FromImage:
    """An image, scaled to a width and a height: [1, channels, height, width]."""

    path: Path
    sizes: tuple[int, int, int]
    """Channels, height and width."""
    data_type: DataType

    @property
    def size_in_bytes(self) -> int:
        """The bytes of the tensor."""
        return math.prod(self.sizes) * self.data_type.size_in_bytes

    def fill(self, target: Bytes) -> None:
        """Decode and scale, cubically; a byte is a 255th."""
        channels, height, width = self.sizes
        image = _read(self.path, lambda image: image.convert(MODES[channels]).resize((width, height), 3))
        pixels = np.asarray(image, np.float32).reshape(height, width, channels) / np.float32(255)
        target.view(self.data_type.dtype)[:] = pixels.transpose(2, 0, 1).ravel()


def check_image(path: Path) -> None:
    """Check that a file is an image of a size that may be read; its pixels are not decoded."""
    _read(path, lambda image: image.mode)


def _read(path: Path, use: Any) -> Any:
    opened = load_pillow()
    try:
        with open_plain(path, path.name) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are looked at here
            with opened.open(file, formats=list(_FORMATS.values())) as image:
                if image.width * image.height > _LARGEST:
                    rule, found = f"the image must have at most {_LARGEST} pixels", f"{image.width} by {image.height}"
                    raise ModelFileError(path.name, Fault(field="", rule=rule, found=found))
                return use(image)
    except ModelFileError:
        raise
    except Exception as error:
        rule = f"the file must be a JPEG or PNG image ({show(error, 80)})"
        raise ModelFileError(path.name, Fault(field="", rule=rule)) from error


def write_image(data: np.ndarray[Any, Any], dimensions: Sequence[int], suffix: str) -> bytes:
    """A tensor [1, channels, height, width] as an image: numbers are cut off at 0 and 1, and fractions of a 255th."""
    _, channels, height, width = dimensions
    planes = data[: channels * height * width].reshape(channels, height, width).astype(np.float32)
    with np.errstate(invalid="ignore"):
        pixels = (np.clip(np.nan_to_num(planes, nan=0.0), 0, 1) * np.float32(255)).astype(np.uint8).transpose(1, 2, 0)
    image = load_pillow().fromarray(np.ascontiguousarray(pixels if channels > 1 else pixels[..., 0]))
    found = io.BytesIO()
    kind = _FORMATS[suffix]
    (image.convert("RGB") if kind == "JPEG" and channels == 4 else image).save(found, kind)
    return found.getvalue()
