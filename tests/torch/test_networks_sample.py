"""A sample of what `make test-networks` judges, and what its verdicts are made of."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
for _name in ("torchvision", "transformers"):
    if importlib.util.find_spec(_name) is None:
        pytest.skip(f'{_name} is not installed: make test EXTRAS="torch networks"', allow_module_level=True)

from benchmarks.torch.__main__ import main  # noqa: E402 - it imports PyTorch
from benchmarks.torch.networks import LARGE, SMALL  # noqa: E402 - it imports PyTorch
from benchmarks.torch.vision_operators import load_torchvision  # noqa: E402 - likewise
from tests.torch import networks  # noqa: E402 - likewise

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's and transformers' own


def test_there_are_forty_networks_and_twelve_for_the_benchmark() -> None:
    assert len(SMALL) >= 40
    assert len(LARGE) == 12


@pytest.mark.long
@pytest.mark.parametrize("name", ["squeezenet1_1", "llama"])
def test_networks_that_are_whole(name: str) -> None:
    verdict, told = networks.judge(name, backward=False)
    assert verdict == "whole", told


@pytest.mark.long
def test_another_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml.torch.lower import LOWERINGS

    def wrong(context: Any, x: Any, *_: Any, **__: Any) -> Any:
        return context.full(7, context.data_type(), context.sizes())

    monkeypatch.setitem(LOWERINGS, "aten.mm.default", wrong)
    assert networks.judge("llama", backward=False)[0] == "wrong"


def test_boxes_that_overlap_are_left_out() -> None:
    load_torchvision()
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5], [8, 8, 9, 9], [0, 3, 4, 9]])
    scores = torch.tensor([0.5, 0.9, 0.1, 0.3])
    assert torch.ops.torchvision.nms(boxes, scores, 0.5).tolist() == [1, 3, 2]
    assert torch.ops.torchvision.nms(boxes, scores, 0.1).tolist() == [1, 2]


@pytest.mark.long
def test_the_benchmark_prints_times_and_ratios(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    found = tmp_path / "times.json"
    given = "--small --only squeezenet1_1 --peers eager --threads 1 --batch 1 --rounds 3 --parts run,call"
    assert main([*given.split(), "--json", str(found)]) == 0
    printed = capsys.readouterr().out
    assert "squeezenet1_1, 1 " in printed
    assert "eager's time over ours:" in printed
    rows = json.loads(found.read_text())
    assert [row["part"] for row in rows] == ["run", "call", "call"]
    assert all(len(several) >= 3 for row in rows for several in row["times"].values())
    assert all(row["times"].keys() == {"eager", "anydml"} for row in rows)
