"""Networks of torchvision and transformers by `torch.compile(..., backend="anydml")`: whole, partly, wrong, or a crash.

`python -m tests.torch.networks --only resnet18,bert` judges some, `make test-networks` all: forward with a batch of
two, and with `--direction backward` in training, gradients of all weights. Weights are made up, configurations small.
"""

from __future__ import annotations

import argparse
import copy
import logging
import sys
import time
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

from benchmarks.torch.networks import SMALL
from tests.torch.opinfo import ABOUT, Case, Log, judge_cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BATCH = 2


def case(name: str) -> Case:
    """A network with its inputs, the same at every call: an error of its own is none of the backend's."""
    network = SMALL[name]
    built = network.build()

    def made() -> tuple[Any, Any]:
        return copy.deepcopy(built), ((), network.feeds(BATCH))

    return Case(made, name)


def judge(name: str, *, backward: bool) -> tuple[str, Counter[str]]:
    """The verdict of a network, and what went to PyTorch or went wrong."""
    wanted = case(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return judge_cases(name, [wanted], backward=backward)


def run(names: Iterable[str], directions: Sequence[str], log: Log) -> None:
    """Judge networks by direction, which the log does not have."""
    for name in names:
        for direction in directions:
            if (key := f"{name} {direction}") in log.found:
                continue
            log.note(key, "crash", {"the process ended": 1})
            start = time.perf_counter()
            verdict, told = judge(name, backward=direction == "backward")
            log.note(key, verdict, dict(told))
            rest = "; ".join(f"{count} {why}" for why, count in told.items())
            print(f"{verdict:6} {key} ({time.perf_counter() - start:.0f} s)  {rest}", flush=True)


def main() -> int:
    """Judge, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help=f"with commas, of {', '.join(SMALL)}")
    parser.add_argument("--direction", default="forward", choices=("both", "forward", "backward"))
    parser.add_argument("--part", default="1/1", help="the second of three parts is 2/3")
    parser.add_argument("--log", help="a file for verdicts as they are found, and of those found before")
    given = parser.parse_args()
    for noisy in ("torch._dynamo", "transformers"):  # of graph breaks, which are counted; of numbers of special tokens
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    number, count = map(int, given.part.split("/"))
    log = Log(given.log)
    directions = ("forward", "backward") if given.direction == "both" else (given.direction,)
    run(given.only.split(",") if given.only else [*SMALL][number - 1 :: count], directions, log)
    counted = Counter(one["verdict"] for one in log.found.values())
    print(f"{len(log.found)} networks: " + ", ".join(f"{counted[one]} {one}" for one in ABOUT))
    return 1 if counted["wrong"] or counted["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
