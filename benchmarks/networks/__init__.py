"""Networks that people have, of PyTorch's own layers with made-up weights: small ones for tests, real sizes to measure."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.networks import dense, language, speech, vision
from benchmarks.networks.network import Network

NETWORKS: dict[str, Callable[..., Network]] = {
    "ResNet-50": vision.resnet,
    "SqueezeNet": vision.squeezenet,
    "MobileNet-v2": vision.mobilenet_v2,
    "MobileNet-v3": vision.mobilenet_v3,
    "EfficientNet-B0": vision.efficientnet,
    "ViT-B/16": vision.vit,
    "U-Net": dense.unet,
    "YOLO": dense.yolo,
    "BERT-base": language.bert,
    "GPT-2 step": language.gpt2,
    "T5-small": language.t5,
    "Whisper-base encoder": speech.whisper_encoder,
    "Whisper-base decoder step": speech.whisper_decoder,
}
"""By name; each takes `small=True`."""

__all__ = ["NETWORKS", "Network"]
