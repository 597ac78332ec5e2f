"""Pictures as models of vision take them: the operations of a folder's processor. Pillow decodes and scales.

The operations are those of onnxruntime-extensions by their names there, with its defaults and its constants, so that a
model is given the numbers that it is given in ONNX Runtime GenAI.
"""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import show
from anydml.genai.chat_template import need
from anydml.genai.transforms import Transform, read_transforms
from anydml.onnxruntime.ort_errors import refuse

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
_LARGEST = 2**27
"""Pixels of a picture."""
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Of CLIP's pictures."""
_FILTERS = {"LINEAR": "BILINEAR", "CUBIC": "BICUBIC", "LANCZOS": "LANCZOS"}
"""Pillow's names of ways to scale."""
_CROP, _CROPS, _MOST_RATIO = 336, 16, 200
"""Sides of Phi-3's crops, how many there are at most, and how much longer than high a picture may be for Qwen."""


def _pillow() -> Any:
    return need("PIL.Image", "a picture")


def decode(data: bytes) -> Array:
    """The picture in a file, [height, width, 3], red first; what is see-through is dropped."""
    library = _pillow()
    try:
        with warnings.catch_warnings(), library.open(io.BytesIO(data), formats=_FORMATS) as file:
            warnings.simplefilter("error", library.DecompressionBombWarning)
            if math.prod(file.size) > _LARGEST:
                raise refuse("Images", "image", f"a picture must have at most {_LARGEST} pixels", str(file.size))
            held = np.asarray(file)
            if held.ndim == 2 and held.dtype.itemsize > 1 and held.dtype.kind in "iu":  # 16 bits of gray
                return np.repeat((held >> 8).astype(np.uint8)[:, :, None], 3, 2)
            return np.array(file.convert("RGBA" if "transparency" in file.info else "RGB").convert("RGB"))
    except library.UnidentifiedImageError:
        formats = ", ".join(_FORMATS)
        raise refuse("Images", "image", f"pictures must be in files of {formats}", show(data[:8])) from None
    except (
        OSError,
        SyntaxError,
        ValueError,
        library.DecompressionBombWarning,
        library.DecompressionBombError,
    ) as error:
        raise refuse("Images", "image", f"the picture cannot be decoded ({error})") from error


def scale(picture: Array, height: int, width: int, interpolation: str) -> Array:
    """A picture in another size: of bytes, [height, width, 3], which are rounded to bytes again, or a plane of floats.

    Rows first, whatever order Pillow finds quicker: bytes are rounded between.
    """
    library = _pillow()
    chosen = getattr(library.Resampling, _FILTERS[interpolation])
    held = library.fromarray(np.ascontiguousarray(picture))
    return np.asarray(held.resize((width, held.height), chosen).resize((width, height), chosen))


# The operations. Each gives a tuple where it makes more than pixels.


@dataclass(frozen=True)
class DecodeImage(Transform):
    """A file's picture, bytes of [height, width, 3]."""

    color_space: str = "RGB"

    def __post_init__(self) -> None:
        _among("DecodeImage", "color_space", self.color_space.upper(), ("RGB", "BGR"))

    def __call__(self, data: bytes) -> Array:
        """The picture."""
        found = decode(data)
        return found[:, :, ::-1] if self.color_space.upper() == "BGR" else found


@dataclass(frozen=True)
class ConvertRGB(Transform):
    """Blue first to red first, and back."""

    def __call__(self, picture: Array) -> Array:
        """The picture."""
        return picture[:, :, ::-1]


@dataclass(frozen=True)
class Resize(Transform):
    """A picture of a fixed size, or of one that whole patches fill and whose sides keep their ratio."""

    height: int = 256
    width: int = 256
    keep_aspect_ratio: int = 1
    """Taken: it changes nothing in onnxruntime-extensions either."""
    interpolation: str = "CUBIC"
    smart_resize: int = 0
    min_pixels: int = 56 * 56
    max_pixels: int = 16384 * 28 * 28
    patch_size: int = 14
    merge_size: int = 2

    def __post_init__(self) -> None:
        _among("Resize", "interpolation", self.interpolation, _FILTERS)

    def __call__(self, picture: Array) -> Array:
        """The picture."""
        size = self._smart(*picture.shape[:2]) if self.smart_resize else (self.height, self.width)
        return scale(picture, *size, self.interpolation)

    def _smart(self, height: int, width: int) -> tuple[int, int]:
        if max(height, width) > _MOST_RATIO * min(height, width):
            rule = f"a side of a picture must be at most {_MOST_RATIO} times the other"
            raise refuse("Images", "image", rule, f"{width} x {height}")
        unit = self.patch_size * self.merge_size
        tall, wide = (max(unit, math.floor(side / unit + 0.5) * unit) for side in (height, width))
        if tall * wide > self.max_pixels:
            share = math.sqrt(height * width / self.max_pixels)
            tall, wide = (math.floor(int(side / share) / unit) * unit for side in (height, width))
        elif tall * wide < self.min_pixels:
            share = math.sqrt(self.min_pixels / (height * width))
            tall, wide = (math.ceil(int(side * share) / unit) * unit for side in (height, width))
        return max(tall, unit), max(wide, unit)


@dataclass(frozen=True)
class CenterCrop(Transform):
    """The middle of a picture."""

    height: int = 224
    width: int = 224

    def __call__(self, picture: Array) -> Array:
        """The picture."""
        if picture.shape[0] < self.height or picture.shape[1] < self.width:
            rule = f"a picture must be {self.width} x {self.height} at least"
            raise refuse("Images", "image", rule, f"{picture.shape[1]} x {picture.shape[0]}")
        top, left = (picture.shape[0] - self.height) // 2, (picture.shape[1] - self.width) // 2
        return picture[top : top + self.height, left : left + self.width]


@dataclass(frozen=True)
class Rescale(Transform):
    """Bytes to numbers from 0 to 1."""

    rescale_factor: float = float(np.float32(1) / np.float32(255))

    def __call__(self, picture: Array) -> Array:
        """The picture."""
        return picture.astype(np.float32) * np.float32(self.rescale_factor)


@dataclass(frozen=True)
class Normalize(Transform):
    """Numbers about 0, by each colour's mean and deviation."""

    mean: tuple[float, ...] = _MEAN
    std: tuple[float, ...] = _STD
    qwen2_5_vl: int = 0
    """Whether red and blue are exchanged before."""
    qwen3_vl: int = 0

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            if len(getattr(self, name)) != 3:
                raise refuse("Normalize", name, f"{name} must have 3 numbers", str(len(getattr(self, name))))

    def __call__(self, picture: Array) -> Array:
        """The picture."""
        given = picture[:, :, ::-1] if self.qwen2_5_vl or self.qwen3_vl else picture
        return (given - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)


@dataclass(frozen=True)
class Permute3D(Transform):
    """Axes in another order."""

    dims: tuple[int, ...] = (1, 2, 0)

    def __post_init__(self) -> None:
        if sorted(self.dims) != [0, 1, 2]:
            raise refuse("Permute3D", "dims", "dims must be 0, 1 and 2 in some order", str(list(self.dims)))

    def __call__(self, picture: Array) -> Array:
        """The picture."""
        return picture.transpose(self.dims)


@dataclass(frozen=True)
class PatchImage(Transform):
    """Patches in the order in which Qwen merges them, and how many there are along time, height and width."""

    patch_size: int = 14
    temporal_patch_size: int = 2
    merge_size: int = 2

    def __call__(self, picture: Array) -> tuple[Array, Array]:
        """The patches, [count, numbers], and [[1, rows, columns]]."""
        side, merge = self.patch_size, self.merge_size
        rows, columns = (size // side for size in picture.shape[:2])
        if (rows * side, columns * side) != picture.shape[:2] or rows % merge or columns % merge:
            rule = f"a picture must be filled by {merge} x {merge} patches of {side} x {side}"
            raise refuse(
                "Images", "image", rule, f"{picture.shape[1]} x {picture.shape[0]}", "Resize with smart_resize"
            )
        parts = picture.reshape(rows // merge, merge, side, columns // merge, merge, side, 3)
        ordered = parts.transpose(0, 3, 1, 4, 6, 2, 5)[:, :, :, :, :, None]
        repeated = np.repeat(ordered, self.temporal_patch_size, 5)
        return repeated.reshape(rows * columns, -1), np.array([[1, rows, columns]])


@dataclass(frozen=True)
class Phi3ImageTransform(Transform):
    """A picture as a whole, and as crops of 336 x 336, of which there are as many as its ratio allows."""

    num_crops: int = _CROPS
    num_img_tokens: int = 144
    """Both taken: onnxruntime-extensions has 16 and 144, whatever is said here."""

    def __call__(self, picture: Array) -> tuple[Array, Array, Array]:
        """Crops of [17, 3, 336, 336], the size of the scaled picture, and the tokens that it becomes."""
        height, width = picture.shape[:2]
        ratio = max(height, width) / min(height, width)
        count = 1
        while (count + 1) * math.ceil((count + 1) / ratio) <= _CROPS:
            count += 1
        long = count * _CROP
        short = int(long / ratio)
        if not short:
            raise refuse(
                "Images", "image", f"a side of a picture must be at most {long} times the other", f"{ratio:.0f}"
            )
        size = (short, long) if width >= height else (long, short)
        scaled = _padded(scale(picture, *size, "LINEAR"))
        levels = scaled.astype(np.float32) / np.float32(255)
        pixels = ((levels - np.array(_MEAN, np.float32)) / np.array(_STD, np.float32)).transpose(2, 0, 1)
        rows, columns = (side // _CROP for side in scaled.shape[:2])
        found = np.zeros((_CROPS + 1, 3, _CROP, _CROP), np.float32)
        for colour, own in enumerate(pixels):
            found[0, colour] = scale(own, _CROP, _CROP, "CUBIC")
        crops = pixels.reshape(3, rows, _CROP, columns, _CROP).transpose(1, 3, 0, 2, 4)
        found[1 : 1 + rows * columns] = crops.reshape(-1, 3, _CROP, _CROP)
        tokens = (rows * columns + 1) * 144 + 1 + (rows + 1) * 12
        return found, np.array(scaled.shape[:2]), np.array([tokens])


def _padded(picture: Array) -> Array:
    """White around a picture, so that crops fill it."""
    missing = [-side % _CROP for side in picture.shape[:2]]
    around = [(own // 2, own - own // 2) for own in missing]
    return np.pad(picture, (*around, (0, 0)), constant_values=255)


def _among(subject: str, field: str, value: str, known: Any) -> None:
    if value not in known:
        raise refuse(subject, field, f"{field} must be one of {', '.join(known)}", show(value))


_KINDS = (DecodeImage, ConvertRGB, Resize, CenterCrop, Rescale, Normalize, Permute3D, PatchImage, Phi3ImageTransform)
OPERATIONS: dict[str, type[Transform]] = {kind.__name__: kind for kind in _KINDS}


class ImageProcessor:
    """What a folder's processor does with each picture."""

    def __init__(self, path: Path) -> None:
        self._transforms = read_transforms(path, "processor", "transforms", OPERATIONS)

    def __call__(self, pictures: list[bytes]) -> list[tuple[Array, ...]]:
        """Of each picture its pixels, and what else the last operation makes."""
        found = []
        for picture in pictures:
            value: Any = picture
            for transform in self._transforms:
                value = transform(value)
            found.append(value if isinstance(value, tuple) else (value,))
        return found
