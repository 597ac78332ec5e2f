"""Sound as models of speech take it: WAV files, resampling, and the operations of a folder's audio processor.

The operations are those of onnxruntime-extensions by their names there, with its defaults and its constants, so that a
model is given the numbers that it is given in ONNX Runtime GenAI.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.genai.transforms import Transform, read_transforms
from anydml.onnxruntime.ort_errors import refuse

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]

RATE = 16000
"""Samples a second of what the mel scale is made for."""
_MOST_CHANNELS = 16
_MARKS = {b"fLaC": "FLAC", b"OggS": "Ogg", b"ID3": "MP3", b"\xff\xfb": "MP3", b"\xff\xf3": "MP3", b"\xff\xf2": "MP3"}
"""How files of other formats begin."""
_CODINGS = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "IMA ADPCM", 85: "MP3"}
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


# Files


def read_wave(data: bytes, subject: str = "Audios") -> tuple[Array, int]:
    """The samples of a WAV file as FLOAT32 from -1 to 1, [samples, channels], and how many there are a second."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        kind = next((kind for mark, kind in _MARKS.items() if data.startswith(mark)), "")
        kind = "MPEG-4" if data[4:8] == b"ftyp" else kind
        way_out = "convert it to WAV: ffmpeg -i FILE -ar 16000 -ac 1 out.wav"
        raise refuse(subject, "audio", "sound must be in a WAV file", kind or "no known format", way_out)
    coding = channels = rate = bits = 0
    place = 12
    while place + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, place)
        chunk = memoryview(data)[place + 8 : place + 8 + size]
        if name == b"fmt ":
            if len(chunk) < 16:
                raise refuse(subject, "audio", "the format of a WAV file must have 16 bytes", str(len(chunk)))
            coding, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
            if coding == _EXTENSIBLE and len(chunk) >= 26:
                (coding,) = struct.unpack_from("<H", chunk, 24)
        elif name == b"data" and coding:
            return _samples(chunk, coding, channels, bits, subject), rate
        place += 8 + size + size % 2
    raise refuse(
        subject, "audio", f"the WAV file must have a {'data' if coding else 'fmt'} chunk", f"{len(data)} bytes"
    )


def _samples(chunk: memoryview, coding: int, channels: int, bits: int, subject: str) -> Array:
    samples: Array
    if coding not in (_PCM, _FLOAT) or (coding, bits) not in _READERS:
        rule = "samples of a WAV file must be whole numbers of 8, 16, 24 or 32 bits, or floats of 32 or 64"
        found = _CODINGS.get(coding, f"{bits} bits of coding {coding}")
        raise refuse(subject, "audio", rule, found, "convert it: ffmpeg -i FILE -c:a pcm_s16le out.wav")
    if not 1 <= channels <= _MOST_CHANNELS:
        raise refuse(subject, "audio", f"a WAV file must have 1 to {_MOST_CHANNELS} channels", str(channels))
    size = channels * bits // 8
    whole = chunk[: len(chunk) // size * size]
    if coding == _PCM and bits == 24:
        parts = np.frombuffer(whole, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(parts), 4), np.uint8)
        wide[:, 1:] = parts
        samples = wide.view("<i4")[:, 0] >> 8
    else:
        samples = np.frombuffer(whole, _READERS[coding, bits][0])
    scaled: Array = samples.astype(np.float32) / np.float32(_READERS[coding, bits][1])
    return (scaled - np.float32(bits == 8)).reshape(-1, channels)


_READERS: dict[tuple[int, int], tuple[str, float]] = {
    (_PCM, 8): ("u1", 127.5),
    (_PCM, 16): ("<i2", 1 << 15),
    (_PCM, 24): ("", 1 << 23),
    (_PCM, 32): ("<i4", 1 << 31),
    (_FLOAT, 32): ("<f4", 1),
    (_FLOAT, 64): ("<f8", 1),
}
"""By coding and bits, NumPy's type of a sample and what it is divided by."""


# Resampling

_POLES, _BETA = 4, 6.0


def lowpass(samples: Array, cutoff: float, rate: float) -> Array:
    """A Butterworth filter of four poles, by its response to an impulse.

    The response is cut where it has died away: 1e-12 of a sample, far below FLOAT32's last bit.
    """
    forward, back = _butterworth(cutoff / rate)
    response = []
    past = [0.0] * _POLES
    for n in range(4096):
        own = (forward[n] if n <= _POLES else 0.0) - sum(a * y for a, y in zip(back, past, strict=True))
        past = [own, *past[:-1]]
        response.append(own)
        if n > _POLES and max(map(abs, past)) < 1e-12:
            break
    return np.convolve(samples.astype(np.float64), response)[: len(samples)].astype(np.float32)


def _butterworth(share: float) -> tuple[Array, Array]:
    """The filter's coefficients, of inputs and of earlier outputs, for a cutoff that is this share of the rate.

    Sections of two poles each by the bilinear transform, moved from the frequency 1 to the wanted one, and scaled so
    that a constant passes as it is.
    """
    forward, back = np.ones(1), np.ones(1)
    t = 2 * np.tan(0.5)
    w = 2 * np.pi * share
    k = np.sin(0.5 - w / 2) / np.sin(0.5 + w / 2)
    for pole in range(1, _POLES // 2 + 1):
        angle = np.pi / (_POLES * 2) + (pole - 1) * np.pi / _POLES
        real = -np.cos(angle)
        d = 4 - 4 * real * t + t * t
        x0, x1, x2 = t * t / d, 2 * t * t / d, t * t / d
        y1, y2 = (8 - 2 * t * t) / d, (-4 - 4 * real * t - t * t) / d
        d = 1 + y1 * k - y2 * k * k
        own = [x0 - x1 * k + x2 * k * k, -2 * x0 * k + x1 + x1 * k * k - 2 * x2 * k, x0 * k * k - x1 * k + x2]
        poles = [(2 * k + y1 + y1 * k * k - 2 * y2 * k) / d, (-k * k - y1 * k + y2) / d]
        forward = np.convolve(forward, np.array(own) / d)
        back = np.convolve(back, [1, -poles[0], -poles[1]])
    return forward * back.sum() / forward.sum(), back[1:]


def resample(samples: Array, rate: int, target: int) -> Array:
    """Fewer samples a second, each a sum of its neighbours under a sinc in Kaiser's window.

    Places are counted in FLOAT32, as onnxruntime-extensions counts them.
    """
    factor = np.float32(target) / np.float32(rate)
    count = int(np.ceil(np.float32(len(samples)) * factor))
    places = (np.arange(count).astype(np.float32) / factor).astype(np.float32)
    whole = places.astype(np.int64)
    reach = int(np.ceil(_BETA / (2.0 * float(factor))))
    window = np.kaiser(2 * reach + 1, _BETA)
    offsets = np.arange(-reach, reach + 1)
    found = np.empty(count, np.float32)
    inner = np.nonzero((whole >= reach) & (whole + reach < len(samples)))[0]
    for part in np.array_split(inner, max(1, len(inner) // 16384)):  # a few MB at a time
        near = whole[part, None] + offsets
        found[part] = (samples[near] * window * np.sinc(near - places[part, None].astype(np.float64))).sum(1)
    for n in np.setdiff1d(np.arange(count), inner):
        near = np.arange(max(0, whole[n] - reach), min(len(samples) - 1, whole[n] + reach) + 1)
        found[n] = (
            (samples[near] * np.kaiser(len(near), _BETA) * np.sinc(near - float(places[n]))).sum()
            if len(near) > 1
            else 0
        )
    return found


# The operations of a folder's audio processor


@dataclass(frozen=True)
class AudioDecoder(Transform):
    """A file's samples, mixed to one channel and brought to a rate, the longest part that a model takes."""

    target_sample_rate: int = RATE
    target_sample_rates: tuple[int, ...] = ()
    stereo_to_mono: int = 1
    max_samples: int = 30 * RATE

    def __call__(self, data: bytes) -> Array:
        """The samples, [1, n]."""
        samples, rate = read_wave(data)
        rates = sorted(self.target_sample_rates or (self.target_sample_rate,))
        if rate < rates[0]:
            way_out = f"convert it: ffmpeg -i FILE -ar {rates[0]} out.wav"
            raise refuse("Audios", "audio", f"sound must have {rates[0]} samples a second or more", str(rate), way_out)
        mono = samples.mean(1, dtype=np.float32) if self.stereo_to_mono else samples.reshape(-1)
        if (target := max(one for one in rates if one <= rate)) != rate:
            mono = resample(lowpass(mono, 0.5 * target, rate), rate, target)
        if not len(mono):
            raise refuse("Audios", "audio", "the WAV file must have a sample at least", "none")
        return mono[None, : self.max_samples or None]


@dataclass(frozen=True)
class STFTNorm(Transform):
    """The power of each frequency in frames that overlap."""

    n_fft: int
    hop_length: int
    frame_length: int
    win_fn: str = "hann"
    hann_win: tuple[float, ...] = ()

    def __call__(self, samples: Array) -> Array:
        """The squares of a Fourier transform's sizes, [1, n_fft / 2 + 1, frames]."""
        if samples.shape[1] < self.hop_length:
            rule = f"sound must have {self.hop_length} samples at least"
            raise refuse("Audios", "audio", rule, str(samples.shape[1]), "give a longer one")
        padded = np.pad(samples[0], self.n_fft // 2)
        frames = np.lib.stride_tricks.sliding_window_view(padded, self.n_fft)[:: self.hop_length]
        spectrum = np.fft.rfft(frames * self._window)
        return (spectrum.real**2 + spectrum.imag**2).astype(np.float32).T[None]

    @property
    def _window(self) -> Array:
        count = self.frame_length
        if self.hann_win:
            own = np.array(self.hann_win, np.float32)
        elif self.win_fn == "hamming":
            own = (0.08 + 0.92 * np.sin(np.pi * np.arange(count) / (count - 1)) ** 2).astype(np.float32)
        else:
            own = (np.sin(np.pi * np.arange(count) / count) ** 2).astype(np.float32)
        return np.pad(own, (0, self.n_fft - len(own)))


@dataclass(frozen=True)
class LogMelSpectrum(Transform):
    """The logarithm of the power in each band of the mel scale, as Whisper takes it."""

    hop_length: int
    n_fft: int
    n_mel: int
    chunk_size: int
    feature_first: int = 1
    no_padding: int = 0

    def __call__(self, powers: Array) -> Array:
        """The bands, [n_mel, frames]: of chunk_size seconds unless there is no_padding."""
        bands = mel_filters(self.n_fft, self.n_mel) @ powers[0, :, :-1].astype(np.float64)
        found = np.log10(np.maximum(bands, 1e-10)).astype(np.float32)
        lowest = found.max() - np.float32(8)
        found = (np.maximum(found, lowest) + np.float32(4)) / np.float32(4)
        if self.no_padding:
            return found if self.feature_first else np.ascontiguousarray(found.T)
        count = self.chunk_size * RATE // self.hop_length
        padded = np.full((self.n_mel, count), (lowest + np.float32(4)) / np.float32(4), np.float32)
        padded[:, : found.shape[1]] = found[:, :count]
        return padded


def mel_filters(n_fft: int, n_mel: int, rate: int = RATE) -> Array:
    """How much each frequency counts in each band of Slaney's mel scale: triangles, [n_mel, n_fft / 2 + 1]."""
    mels = np.linspace(0, 45.245640471924965, n_mel + 2)
    hertz = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp(np.log(6.4) / 27 * (mels - 15)))
    ramps = hertz[:, None] - np.arange(n_fft // 2 + 1) * rate / n_fft
    spans = np.diff(hertz)[:, None]
    triangles = np.maximum(0, np.minimum(-ramps[:-2] / spans[:-1], ramps[2:] / spans[1:]))
    found: Array = triangles * (2 / (hertz[2:] - hertz[:-2]))[:, None]
    return found


OPERATIONS: dict[str, type[Transform]] = {kind.__name__: kind for kind in (AudioDecoder, STFTNorm, LogMelSpectrum)}


class FeatureExtractor:
    """What a folder's audio processor does with each sound."""

    def __init__(self, path: Path) -> None:
        self._transforms = read_transforms(path, "feature_extraction", "sequence", OPERATIONS)

    def __call__(self, sounds: list[bytes]) -> Array:
        """The features of several sounds, [sounds, ...]."""
        several = []
        for sound in sounds:
            value: Any = sound
            for transform in self._transforms:
                value = transform(value)
            several.append(value)
        if len({one.shape for one in several}) > 1:
            rule = "sounds of one batch must have features of the same shape"
            raise refuse("MultiModalProcessor", "audios", rule, str([list(one.shape) for one in several]))
        return np.stack(several)
