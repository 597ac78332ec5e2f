"""Every sample of PyTorch's OpInfos by `torch.compile(op, backend="anydml")`: whole, partly by PyTorch, wrong, a crash.

`python -m tests.torch.opinfo --only add,softmax --dtypes float32 --most 5` judges some, `make test-torch` all. An
operator is whole where no node of any sample went to PyTorch.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import anydml.torch
from anydml.torch import backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

DTYPES = ("float32", "float16", "int64", "bool")
ABOUT = {
    "whole": "by anydml alone",
    "partly": "a node or more by PyTorch, or by Dynamo outside of graphs",
    "wrong": "another answer than PyTorch's",
    "crash": "an error where PyTorch has an answer",
}
_RANDOM = ("rand", "bernoulli", "multinomial", "normal", "uniform", "exponential", "cauchy", "geometric", "dropout",
           "log_normal", "empty", "rrelu", "feature_alpha", "alpha_dropout", "pca_lowrank", "svd_lowrank")  # fmt: skip


def op_infos() -> dict[str, Any]:
    """PyTorch's OpInfos by their names."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{one.name}{'.' + one.variant_test_name if one.variant_test_name else ''}": one for one in op_db}


def samples(info: Any, dtype: Any, most: int | None) -> Iterator[Any]:
    """The samples of an operator in a type, of which the first so many are taken."""
    for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
        if most is not None and number >= most:
            return
        yield sample


def judge(info: Any, dtype: Any, most: int | None = None) -> tuple[str, Counter[str]]:
    """The verdict of an operator in a type, and what went to PyTorch or went wrong."""
    told: Counter[str] = Counter()
    verdict = "whole"

    def note(program: Any) -> None:
        told.update(program.fallbacks)

    for sample in samples(info, dtype, most):
        try:
            wanted = _call(info.op, sample)
        except Exception:  # noqa: BLE001, S112 - what PyTorch refuses is no sample
            continue
        torch._dynamo.reset()
        with backend.watching(note):
            compiled = torch.compile(info.op, backend=anydml.torch.compile_graph)
            try:
                found = _call(compiled, sample)
            except Exception as error:  # noqa: BLE001 - that is the verdict
                return "crash", Counter({f"{type(error).__name__}: {str(error)[:300]}": 1})
        if not info.name.split(".")[-1].startswith(_RANDOM) and not any(one in info.name for one in _RANDOM):
            try:
                check(found, wanted)
            except AssertionError as error:
                return "wrong", Counter({f"{_told(sample)}: {error}"[:500]: 1})
    if told:
        verdict = "partly"
    return verdict, told


def _told(sample: Any) -> str:
    return f"{sample.summary() if hasattr(sample, 'summary') else sample}"


def _call(function: Callable[..., Any], sample: Any) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        given = torch.utils._pytree.tree_map(_copied, (sample.input, sample.args, sample.kwargs))
        return function(given[0], *given[1], **given[2])


def _copied(one: Any) -> Any:
    return one.clone() if type(one) is torch.Tensor else one


def check(found: Any, wanted: Any) -> None:
    """Hold an answer against PyTorch's: exactly of integers, within some roundings of floats."""
    several, others = (torch.utils._pytree.tree_leaves(one) for one in (found, wanted))
    assert len(several) == len(others), f"{len(several)} results for {len(others)}"
    for a, b in zip(several, others, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b or a != a, f"{a} for {b}"
            continue
        torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)


def run(names: Sequence[str], dtypes: Sequence[str], most: int | None) -> dict[str, dict[str, Any]]:
    """The verdicts of operators, by type."""
    infos, found = op_infos(), dict[str, dict[str, Any]]()
    for name in names:
        info = infos[name]
        for dtype in dtypes:
            kind = getattr(torch, dtype)
            if kind not in info.supported_dtypes("cpu"):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                verdict, told = judge(info, kind, most)
            found[f"{name} {dtype}"] = {"verdict": verdict, "told": dict(told)}
            if verdict in ("wrong", "crash"):
                print(f"{verdict:6} {name} {dtype}: {next(iter(told), '')}", flush=True)
    return found


def main() -> int:
    """Judge, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of operators, with commas between them")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--most", type=int, help="samples of each operator and type")
    parser.add_argument("--part", default="1/1", help="the second of three parts is 2/3")
    parser.add_argument("--json", help="a file for all verdicts")
    given = parser.parse_args()
    number, count = map(int, given.part.split("/"))
    names = given.only.split(",") if given.only else list(op_infos())[number - 1 :: count]
    found = run(names, given.dtypes.split(","), given.most)
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1))
    counted = Counter(one["verdict"] for one in found.values())
    for verdict, about in ABOUT.items():
        print(f"{counted[verdict]:5} {verdict:7} {about}")
    reasons = Counter(why for one in found.values() if one["verdict"] == "partly" for why in one["told"])
    for why, times in reasons.most_common(40):
        print(f"{times:5} {why}")
    return 1 if counted["wrong"] or counted["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
