"""Images and Audios: refused here, by name, as are the processors of them."""

from __future__ import annotations

from typing import Any, NoReturn

from anydml.core.errors import Fault, UnsupportedError
from anydml.onnxruntime.ort_errors import renamed


def _refused(subject: str, what: str) -> Exception:
    rule = f"{what} are not read here"
    way_out = "models of text run; those of images and sound run in ONNX Runtime GenAI"
    return renamed(UnsupportedError(subject, Fault(field="", rule=rule, way_out=way_out)))


class Images:
    """Refused: images are not read here."""

    @staticmethod
    def open(*_paths: str) -> NoReturn:
        """Refused."""
        raise _refused("Images", "images")

    @staticmethod
    def open_bytes(*_images: bytes) -> NoReturn:
        """Refused."""
        raise _refused("Images", "images")


class Audios:
    """Refused: sound is not read here."""

    @staticmethod
    def open(*_paths: str) -> NoReturn:
        """Refused."""
        raise _refused("Audios", "sounds")

    @staticmethod
    def open_bytes(*_sounds: bytes) -> NoReturn:
        """Refused."""
        raise _refused("Audios", "sounds")


class MultiModalProcessor:
    """Refused: a processor of images and sound."""

    def __init__(self, *_given: Any) -> None:
        raise _refused(type(self).__name__, "images and sounds")


class StreamingProcessor(MultiModalProcessor):
    """Refused: a processor of speech."""
