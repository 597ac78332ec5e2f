"""Networks of torchvision and transformers with made-up weights, by name: as they are, and small ones of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.torch.vision_operators import load_torchvision

WIDTH = 64
"""Of the small transformers."""


@dataclass(frozen=True)
class Network:
    """How a network is made, and its inputs for a batch."""

    make: Callable[[], Any]
    inputs: Callable[[int], dict[str, Any]]
    """By their names, of a batch."""

    def build(self) -> Any:
        """The network, with the same weights at every call, as it answers."""
        torch.manual_seed(0)
        model = self.make().eval()
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):  # as if it had learnt: else deep networks give next to nothing
                module.running_var.uniform_(0.5, 1.5)
                module.running_mean.uniform_(-0.1, 0.1)
        return model

    def feeds(self, batch: int) -> dict[str, Any]:
        """The same inputs at every call."""
        torch.manual_seed(1)
        return self.inputs(batch)


# torchvision


def vision(family: str, name: str, side: int, **given: Any) -> Network:
    """A network of torchvision, on images of a size."""
    wrap = {"detection": _Detected, "segmentation": _Segmented}.get(family)

    def make() -> Any:
        models = load_torchvision().models
        more = {"weights": None, **({"weights_backbone": None} if wrap else {}), **given}
        model = getattr(models if family == "classification" else getattr(models, family), name)(**more)
        return model if wrap is None else wrap(model)

    sizes = (3, 8, side, side) if family == "video" else (3, side, side)
    return Network(make, lambda batch: {_FIRST.get(family, "x"): torch.rand(batch, *sizes)})


_FIRST = {"detection": "images", "segmentation": "images"}


class _Detected(torch.nn.Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """A detector as it takes a batch of one size; its results are boxes, scores and labels of each image."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Any) -> Any:
        return [tuple(one.values()) for one in self.model(list(images.unbind(0)))]


class _Segmented(torch.nn.Module):  # type: ignore[misc]  # likewise
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Any) -> Any:
        return tuple(self.model(images).values())


# transformers


def transformer(kind: str, auto: str, inputs: Callable[[int], dict[str, Any]], **config: Any) -> Network:
    """A network of transformers, of a configuration."""

    def make() -> Any:
        load_torchvision()  # which transformers imports where it is installed
        import transformers

        made = transformers.AutoConfig.for_model(kind, **config)
        return getattr(transformers, auto).from_config(made)

    return Network(make, inputs)


def tokens(length: int, words: int = 256, **more: Any) -> Callable[[int], dict[str, Any]]:
    """Rows of tokens, of which the last of a batch is padded where there are several."""

    def made(batch: int) -> dict[str, Any]:
        mask = torch.ones(batch, length, dtype=torch.int64)
        if batch > 1:
            mask[-1, length // 2 :] = 0
        return {"input_ids": torch.randint(5, words, (batch, length)), "attention_mask": mask, **more}

    return made


def both(length: int, words: int = 256) -> Callable[[int], dict[str, Any]]:
    """Tokens of an encoder and of its decoder."""
    return lambda batch: {
        **tokens(length, words)(batch),
        "decoder_input_ids": torch.randint(5, words, (batch, length // 2)),
    }


def pictures(side: int) -> Callable[[int], dict[str, Any]]:
    return lambda batch: {"pixel_values": torch.randn(batch, 3, side, side)}


_BERT: dict[str, Any] = {
    "vocab_size": 256, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 2 * WIDTH, "max_position_embeddings": 128,
}  # fmt: skip
_LLAMA = {**_BERT, "num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0}
_VIT: dict[str, Any] = {
    "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 2 * WIDTH,
    "image_size": 64, "patch_size": 16,
}  # fmt: skip
_T5 = {
    "vocab_size": 256,
    "d_model": WIDTH,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 4,
    "use_cache": False,
}
_BART: dict[str, Any] = {
    "vocab_size": 256, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_position_embeddings": 128,
    "use_cache": False,
}  # fmt: skip
_CONV = {"conv_dim": [32] * 3, "conv_kernel": [10, 3, 3], "conv_stride": [5, 2, 2]}
_SOUND = {**_BERT, **_CONV, "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16, "mask_time_prob": 0.0}
_SIDES = {"min_size": 96, "max_size": 128}
_REGIONS = {**_SIDES, "rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 30, "box_score_thresh": 0.0}
_CAUSAL, _MODEL = "AutoModelForCausalLM", "AutoModel"


def _clip(batch: int) -> dict[str, Any]:
    return {**tokens(16)(batch), **pictures(64)(batch)}


def _whisper(batch: int) -> dict[str, Any]:
    return {"input_features": torch.randn(batch, 80, 200), "decoder_input_ids": torch.randint(5, 250, (batch, 12))}


SMALL: dict[str, Network] = {
    **{
        name: vision("classification", name, side)
        for name, side in {
            "alexnet": 96, "vgg11_bn": 64, "resnet18": 64, "resnext50_32x4d": 64, "squeezenet1_1": 64,
            "densenet121": 64, "shufflenet_v2_x1_0": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64,
            "mnasnet1_0": 64, "efficientnet_b0": 64, "regnet_y_400mf": 64, "convnext_tiny": 64, "swin_t": 64,
            "swin_v2_t": 64,
        }.items()
    },
    **{name: vision("classification", name, 96, init_weights=True, aux_logits=False) for name in ("inception_v3", "googlenet")},
    "vit_b_32": vision("classification", "vit_b_32", 64, image_size=64),
    "r3d_18": vision("video", "r3d_18", 32),
    "fasterrcnn_mobilenet_v3_large_320_fpn": vision("detection", "fasterrcnn_mobilenet_v3_large_320_fpn", 96, **_REGIONS),
    "retinanet_resnet50_fpn": vision("detection", "retinanet_resnet50_fpn", 96, **_SIDES, topk_candidates=50),
    "fcos_resnet50_fpn": vision("detection", "fcos_resnet50_fpn", 96, **_SIDES, topk_candidates=50),
    "ssdlite320_mobilenet_v3_large": vision("detection", "ssdlite320_mobilenet_v3_large", 96, topk_candidates=50),
    "maskrcnn_resnet50_fpn": vision("detection", "maskrcnn_resnet50_fpn", 96, **_REGIONS),
    "fcn_resnet50": vision("segmentation", "fcn_resnet50", 64),
    "deeplabv3_mobilenet_v3_large": vision("segmentation", "deeplabv3_mobilenet_v3_large", 64),
    "lraspp_mobilenet_v3_large": vision("segmentation", "lraspp_mobilenet_v3_large", 64),
    **{
        kind: transformer(kind, _MODEL, tokens(24), **_BERT)
        for kind in ("bert", "roberta", "electra", "deberta-v2")
    },
    "albert": transformer("albert", _MODEL, tokens(24), **_BERT, embedding_size=32),
    "distilbert": transformer("distilbert", _MODEL, tokens(24), vocab_size=256, dim=WIDTH, n_layers=2, n_heads=4, hidden_dim=128),
    "gpt2": transformer("gpt2", _CAUSAL, tokens(24), vocab_size=256, n_embd=WIDTH, n_layer=2, n_head=4, use_cache=False),
    "gpt_neox": transformer("gpt_neox", _CAUSAL, tokens(24), **_BERT, use_cache=False),
    "opt": transformer("opt", _CAUSAL, tokens(24), vocab_size=256, hidden_size=WIDTH, ffn_dim=128, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=WIDTH, max_position_embeddings=128, use_cache=False),
    **{kind: transformer(kind, _CAUSAL, tokens(24), **_LLAMA) for kind in ("llama", "mistral", "qwen2", "phi3")},
    **{kind: transformer(kind, _CAUSAL, tokens(24), **_LLAMA, head_dim=16) for kind in ("qwen3", "gemma2")},
    "mixtral": transformer("mixtral", _CAUSAL, tokens(24), **_LLAMA, num_local_experts=4),
    "mamba": transformer("mamba", _CAUSAL, lambda batch: {"input_ids": torch.randint(5, 256, (batch, 24))}, vocab_size=256, hidden_size=WIDTH, num_hidden_layers=2, state_size=8, use_cache=False),
    "t5": transformer("t5", "AutoModelForSeq2SeqLM", both(24), **_T5),
    "bart": transformer("bart", "AutoModelForSeq2SeqLM", both(24), **_BART),
    "whisper": transformer("whisper", "AutoModelForSpeechSeq2Seq", _whisper, **{**_BART, "max_source_positions": 100, "max_target_positions": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}),
    "wav2vec2": transformer("wav2vec2", _MODEL, lambda batch: {"input_values": torch.randn(batch, 1600)}, **_SOUND),
    "clip": transformer("clip", _MODEL, _clip, text_config={**_BERT, "eos_token_id": 2}, vision_config=_VIT, projection_dim=32),
    "dinov2": transformer("dinov2", _MODEL, pictures(64), **_VIT),
    "segformer": transformer("segformer", "AutoModelForSemanticSegmentation", pictures(64), hidden_sizes=[16, 32, 40, 64], depths=[1, 1, 1, 1], decoder_hidden_size=32),
    "swinv2": transformer("swinv2", _MODEL, pictures(64), image_size=64, embed_dim=32, depths=[1, 1], num_heads=[2, 4], window_size=4),
}  # fmt: skip
"""For the judge: their kinds of layers, at sizes that a test can take."""

_TEXT, _WORDS = 128, 30_000


def _ids(length: int, words: int) -> Callable[[int], dict[str, Any]]:
    """Rows of tokens without padding."""
    return lambda batch: {"input_ids": torch.randint(5, words, (batch, length))}


def _translated(batch: int) -> dict[str, Any]:
    return {**_ids(_TEXT, _WORDS)(batch), "decoder_input_ids": torch.randint(5, _WORDS, (batch, 32))}


LARGE: dict[str, Network] = {
    **{
        name: vision("classification", name, 224)
        for name in (
            "resnet18", "resnet50", "densenet121", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "vit_b_16",
            "swin_t",
        )
    },
    "lraspp_mobilenet_v3_large": vision("segmentation", "lraspp_mobilenet_v3_large", 224),
    "bert": transformer("bert", _MODEL, _ids(_TEXT, _WORDS)),
    "gpt2": transformer("gpt2", _CAUSAL, _ids(_TEXT, _WORDS), use_cache=False),
    "t5": transformer("t5", "AutoModelForSeq2SeqLM", _translated, use_cache=False),
}  # fmt: skip
"""For the benchmark: networks that people run, in their own sizes."""
