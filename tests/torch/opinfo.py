"""PyTorch's OpInfos and ModuleInfos by `torch.compile(..., backend="anydml")`: whole, partly, wrong, or a crash.

`python -m tests.torch.opinfo --only add,softmax --dtypes float32 --most 5` judges some, `make test-torch` all: every
sample forward in each type, and backward in float32 where PyTorch has a gradient. An operator is whole where no node of
any sample went to PyTorch. `--log FILE` notes verdicts as they are found, and goes on from those that it has.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import json
import logging
import sys
import unittest
import warnings
from collections import Counter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

import anydml.torch
from anydml.torch import backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

DTYPES = ("float32", "float16", "int64", "bool")
DIFFERENTIATED = "float32"
ABOUT = {
    "whole": "by anydml alone",
    "partly": "a node or more by PyTorch, or by Dynamo outside of graphs",
    "wrong": "another answer than PyTorch's",
    "crash": "an error where PyTorch has an answer",
}
_WORSE = ("whole", "partly", "wrong", "crash")
_TOGETHER = 16
"""Samples that are compiled as one function; one by one Dynamo and AOTAutograd take most of the time."""
_UNWRITTEN = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted")
"""Operators whose results hold what was in memory."""


_OPERATORS = "torch.testing._internal.common_methods_invocations"
_CHOOSING = ("argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk")


class Case(NamedTuple):
    """A function of tensors, to be called once by PyTorch and once compiled."""

    made: Callable[[], tuple[Callable[..., Any], Any]]
    """Makes the function, and what it is called with: the same at every call."""
    about: str


def _stand_in() -> None:
    """What PyTorch's tests import and OpInfos do not need, where it is not installed; guards are not timed."""
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # it empties the caches of the CPU to be exact
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        made: Any = ModuleType("expecttest")
        made.TestCase = unittest.TestCase
        sys.modules.setdefault("expecttest", made)


def _thaw_flags() -> None:
    """Let flags as cudnn's be set again, of which PyTorch's tests allow no global change: others' set them."""
    torch.backends.disable_global_flags.__globals__["__allow_nonbracketed_mutation_flag"] = True


@functools.cache
def op_infos() -> dict[str, Any]:
    """PyTorch's OpInfos by their names."""
    _stand_in()
    from torch.testing._internal.common_methods_invocations import op_db

    _thaw_flags()
    return {f"{one.name}{'.' + one.variant_test_name if one.variant_test_name else ''}": one for one in op_db}


@functools.cache
def module_infos() -> dict[str, Any]:
    """PyTorch's ModuleInfos by their names."""
    _stand_in()
    from torch.testing._internal.common_modules import module_db

    _thaw_flags()
    return {one.name: one for one in module_db}


def modes_of(name: str) -> list[tuple[str, bool]]:
    """The types of an operator or a module, and whether it is judged backward too."""
    if (module := module_infos().get(name)) is not None:
        kinds = [one for one in DTYPES if getattr(torch, one) in module.dtypes]
        return [*((one, False) for one in kinds), *([(DIFFERENTIATED, True)] if DIFFERENTIATED in kinds else [])]
    info = op_infos()[name]
    kinds = [one for one in DTYPES if getattr(torch, one) in info.supported_dtypes("cpu")]
    is_differentiable = info.supports_autograd and getattr(torch, DIFFERENTIATED) in info.supported_backward_dtypes(
        "cpu"
    )
    return [*((one, False) for one in kinds), *([(DIFFERENTIATED, True)] if is_differentiable else [])]


def cases(name: str, dtype: Any, *, backward: bool, most: int | None) -> Iterator[Case]:
    """The samples in a type, of which the first so many are taken."""
    several = (_of_module if name in module_infos() else _of_operator)(name, dtype, backward)
    for number, case in enumerate(several):
        if most is not None and number >= most:
            return
        yield case


def _traceable(function: Any) -> Any:
    """A lambda of PyTorch's tests, of which Dynamo traces no function, as one of this file; `_call` sets the seed."""
    if getattr(function, "__module__", "") != _OPERATORS or not isinstance(function, FunctionType):
        return function
    code = function.__code__.replace(co_filename=__file__)
    known = {**function.__globals__, "wrapper_set_seed": _call_it}
    made = FunctionType(code, known, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _call_it(function: Any, *args: Any, **named: Any) -> Any:
    return function(*args, **named)


def _of_operator(name: str, dtype: Any, backward: bool) -> Iterator[Case]:
    info = op_infos()[name]
    function = _traceable(info.op)
    torch.manual_seed(0)
    for sample in info.sample_inputs("cpu", dtype, requires_grad=backward):
        about = str(sample.summary() if hasattr(sample, "summary") else sample)

        def made(sample: Any = sample) -> tuple[Any, Any]:
            return function, tree_map(_copied, ((sample.input, *sample.args), sample.kwargs))

        yield Case(made, about)


def _of_module(name: str, dtype: Any, backward: bool) -> Iterator[Case]:
    info = module_infos()[name]
    for is_training in (True, False) if info.train_and_eval_differ else (False,):
        torch.manual_seed(0)
        given = info.module_inputs_func(info, "cpu", dtype, requires_grad=backward, training=is_training)
        for number, sample in enumerate(given):
            if sample.forward_input is None:
                continue

            def made(sample: Any = sample, is_training: bool = is_training) -> tuple[Any, Any]:
                torch.manual_seed(1)
                built = sample.constructor_input
                module = info.module_cls(*built.args, **built.kwargs).to(dtype).train(is_training)
                return module, tree_map(_copied, (tuple(sample.forward_input.args), sample.forward_input.kwargs))

            yield Case(made, f"sample {number}{' in training' if is_training else ''}: {sample.constructor_input.args}")


def _copied(one: Any) -> Any:
    if not isinstance(one, torch.Tensor):
        return one
    return one.detach().clone().requires_grad_(one.requires_grad)


def judge(name: str, dtype: Any, *, backward: bool, most: int | None = None) -> tuple[str, Counter[str]]:
    """The verdict of an operator in a type, and what went to PyTorch or went wrong."""
    return judge_cases(name, cases(name, dtype, backward=backward, most=most), backward=backward)


def judge_cases(name: str, several: Iterable[Case], *, backward: bool) -> tuple[str, Counter[str]]:
    """The verdict of functions of tensors, and what went to PyTorch or went wrong."""
    told: Counter[str] = Counter()
    rest = iter(several)
    while group := list(itertools.islice(rest, _TOGETHER)):
        group = [case for case in group if _has_answer(case, backward=backward)]
        verdict, why = _judge_together(name, group, backward=backward)
        if verdict not in ("whole", "partly"):  # one by one tells which
            for case in group:
                verdict, why = _judge_together(name, [case], backward=backward)
                if verdict in ("wrong", "crash"):
                    return verdict, why
                told.update(why)
        else:
            told.update(why)
    return ("partly" if told else "whole"), told


def _has_answer(case: Case, *, backward: bool) -> bool:
    """Whether PyTorch has one; what it refuses is no sample."""
    try:
        _call([case], backward=backward)
    except Exception:  # noqa: BLE001 - whichever it is
        return False
    return True


def _judge_together(name: str, group: list[Case], *, backward: bool) -> tuple[str, Counter[str]]:
    """The verdict of samples that are compiled as one function."""
    if not group:
        return "whole", Counter()
    told: Counter[str] = Counter()
    seen: list[Any] = []
    wanted = _call(group, backward=backward)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with backend.watching(seen.append):
        try:
            found = _call(group, compiled=True, backward=backward)
        except Exception as error:  # noqa: BLE001 - that is the verdict
            return "crash", Counter({f"{group[0].about[:200]}: {type(error).__name__}: {str(error)[:300]}": 1})
    for program in seen:
        told.update(program.fallbacks)
        if reruns := sum(part.reruns for part in program.parts):
            told["a part, as its indices, divisors or degrees are out of range"] += reruns
    told.update({f"Dynamo ({why.partition(chr(10))[0]})": 1 for why in torch._dynamo.utils.counters["graph_break"]})
    if name.split(".")[0] not in _UNWRITTEN:
        try:
            check(found, wanted)
        except AssertionError as error:
            if len(group) > 1 or not (
                _is_random(group[0])
                or _are_other_places(name, group[0], found, wanted)
                or _is_of_slow_path(group[0], found)
                or _is_as_near(group[0], found, wanted, backward=backward)
            ):
                return "wrong", Counter({f"{group[0].about[:200]}: {error}"[:500]: 1})
    return ("partly" if told else "whole"), told


def _call(
    group: Sequence[Case], *, compiled: bool = False, backward: bool = False, seed: int = 0, wide: bool = False
) -> Any:
    """The results of samples, and backward the gradients too."""
    functions, given = zip(*(case.made() for case in group), strict=True)
    if wide:
        given = tree_map(_widened, given)
        functions = tuple(one.double() if isinstance(one, torch.nn.Module) else one for one in functions)

    def work(several: Any) -> Any:
        return [function(*args, **named) for function, (args, named) in zip(functions, several, strict=True)]

    called = torch.compile(work, backend=anydml.torch.compile_graph) if compiled else work
    if compiled and not any(isinstance(one, torch.nn.Module) for one in functions):
        with torch.set_grad_enabled(backward):
            called([case.made()[1] for case in group])  # the next call may be short: one that binds nothing
    torch.manual_seed(seed)
    with torch.set_grad_enabled(backward):
        found = called(list(given))
    if not backward:
        return found
    results = [one for one in tree_leaves(found) if isinstance(one, torch.Tensor) and one.requires_grad]
    leaves = [one for one in tree_leaves(given) if isinstance(one, torch.Tensor) and one.requires_grad]
    for function in functions:
        if isinstance(function, torch.nn.Module):
            leaves += [one for one in function.parameters() if one.requires_grad]
    if not results or not leaves:
        return found
    drawn = torch.Generator().manual_seed(2)
    slopes = [torch.randn(one.shape, generator=drawn).to(one.dtype) for one in results]
    return found, torch.autograd.grad(results, leaves, slopes, allow_unused=True)


def _widened(one: Any) -> Any:
    if isinstance(one, torch.Tensor):
        if one.dtype not in (torch.float32, torch.float16):
            return one
        return one.detach().double().requires_grad_(one.requires_grad)
    return torch.float64 if one in (torch.float32, torch.float16) else one


def check(found: Any, wanted: Any) -> None:
    """Hold an answer against PyTorch's: exactly of integers, within some roundings of floats."""
    several, others = tree_leaves(found), tree_leaves(wanted)
    assert len(several) == len(others), f"{len(several)} results for {len(others)}"
    for a, b in zip(several, others, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b or a != a, f"{a} for {b}"
            continue
        torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)


def _is_random(case: Case) -> bool:
    """Whether PyTorch's own answer is another with another seed."""
    try:
        check(_call([case], seed=1), _call([case]))
    except AssertionError:
        return True
    return False


def _is_of_slow_path(case: Case, found: Any) -> bool:
    """Whether it is PyTorch's own without the fast path of nn.Transformer, which no compiler takes.

    That has zeros where a mask hides tokens, and a decoder reads them.
    """
    if not isinstance(case.made()[0], torch.nn.Module) or not torch.backends.mha.get_fastpath_enabled():
        return False
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        check(found, _call([case]))
    except AssertionError:
        return False
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    return True


def _are_other_places(name: str, case: Case, found: Any, wanted: Any) -> bool:
    """Whether only places of equal elements differ, of which PyTorch leaves the choice to the implementation."""
    if name not in _CHOOSING:
        return False
    _, (args, _) = case.made()
    x, several = args[0], [tree_leaves(one) for one in (found, wanted)]
    places = [[one for one in leaves if one.dtype == torch.int64] for leaves in several]
    if x.dtype == torch.int64 and name != "argsort":
        places = [leaves[1:2] for leaves in several]
        if not torch.equal(several[0][0], several[1][0]):
            return False
    elif any(not torch.equal(a, b) for a, b in zip(*several, strict=True) if a.dtype != torch.int64):
        return False
    if not all(places):
        return False
    for dim in range(max(x.dim(), 1)):
        try:
            own, other = (torch.gather(x, dim, leaves[0].reshape(_sized(leaves[0], x, dim))) for leaves in places)
        except (RuntimeError, ValueError):
            continue
        if torch.equal(own, other):
            return True
    return False


def _sized(places: Any, x: Any, dim: int) -> tuple[int, ...]:
    """The sizes of places with the dimension that was folded."""
    if places.dim() == x.dim():
        return tuple(places.shape)
    return (*x.shape[:dim], places.numel() * x.shape[dim] // max(x.numel(), 1), *x.shape[dim + 1 :])


def _is_as_near(case: Case, found: Any, wanted: Any, *, backward: bool) -> bool:
    """Whether an answer is as near to that of float64 as PyTorch's own is, or twice as far."""
    try:
        exact = _call([case], backward=backward, wide=True)
    except Exception:  # noqa: BLE001 - an operator that has no float64
        return False
    several = list(zip(tree_leaves(found), tree_leaves(wanted), tree_leaves(exact), strict=True))
    for a, b, e in several:
        if not isinstance(b, torch.Tensor) or not b.dtype.is_floating_point or a.dtype is not b.dtype:
            if not isinstance(b, torch.Tensor) or a.dtype is not b.dtype or not torch.equal(a, b):
                return False
            continue
        if a.shape != b.shape or not torch.equal(a.isnan(), b.isnan()):
            return False
        a, b = (one.double().nan_to_num(0) for one in (a, b))
        e = e.double().nan_to_num(0)
        eps = torch.finfo(torch.float32).eps
        allowed = 2 * (b - e).abs().amax() + 4 * eps * e.abs().amax() if e.numel() else torch.tensor(0.0)
        if e.numel() and not ((a - e).abs().amax() <= allowed):
            return False
    return True


class Log:
    """Verdicts by operator, type and direction, noted line by line where there is a file."""

    def __init__(self, path: str | None) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self._path = Path(path) if path else None
        if self._path is not None and self._path.exists():
            for line in self._path.read_text().splitlines():
                self._take(json.loads(line))

    def _take(self, one: dict[str, Any]) -> None:
        self.found[one["key"]] = one

    def note(self, key: str, verdict: str, told: dict[str, int]) -> None:
        """Note a verdict; of one that has only begun "crash", should the process end."""
        one = {"key": key, "verdict": verdict, "told": told}
        self._take(one)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(one) + "\n")


def run(names: Iterable[str], dtypes: Sequence[str], most: int | None, log: Log, directions: str = "both") -> None:
    """Judge operators and modules, by type and direction, which the log does not have."""
    for name in names:
        for dtype, backward in modes_of(name):
            key = f"{name} {dtype}{' backward' if backward else ''}"
            if key in log.found or dtype not in dtypes:
                continue
            if directions != "both" and backward != (directions == "backward"):
                continue
            log.note(key, "crash", {"the process ended": 1})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                verdict, told = judge(name, getattr(torch, dtype), backward=backward, most=most)
            log.note(key, verdict, dict(told))
            if verdict in ("wrong", "crash"):
                print(f"{verdict:6} {key}: {next(iter(told), '')}", flush=True)


def report(found: dict[str, dict[str, Any]]) -> str:
    """The table: operators and modules by the worst of their verdicts, and the reasons of those not whole."""
    modules = module_infos()
    lines = []
    for title, is_module in (("OpInfos", False), ("ModuleInfos", True)):
        worst: dict[str, str] = {}
        reasons: Counter[str] = Counter()
        alone: Counter[str] = Counter()
        for key, one in found.items():
            name = key.split(" ")[0]
            if (name in modules) is is_module:
                worst[name] = max(worst.get(name, "whole"), one["verdict"], key=_WORSE.index)
        whys: dict[str, set[str]] = {}
        for key, one in found.items():
            name = key.split(" ")[0]
            if name in worst and worst[name] == "partly":
                whys.setdefault(name, set()).update(one["told"])
        for several in whys.values():
            reasons.update(several)
            if len(several) == 1:
                alone.update(several)
        counted = Counter(worst.values())
        lines.append(f"{len(worst)} {title}: " + ", ".join(f"{counted[one]} {one}" for one in ABOUT))
        lines += [f"{times:5} {alone[why]:4} alone  {why}" for why, times in reasons.most_common()]
    return "\n".join(lines)


def main() -> int:
    """Judge, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of operators and modules, with commas between them")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--direction", default="both", choices=("both", "forward", "backward"))
    parser.add_argument("--most", type=int, help="samples of each operator, type and direction")
    parser.add_argument("--part", default="1/1", help="the second of three parts is 2/3")
    parser.add_argument("--log", help="a file for verdicts as they are found, and of those found before")
    given = parser.parse_args()
    logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)  # of graph breaks, which are counted
    number, count = map(int, given.part.split("/"))
    every = [*op_infos(), *module_infos()]
    names = given.only.split(",") if given.only else every[number - 1 :: count]
    log = Log(given.log)
    run(names, given.dtypes.split(","), given.most, log, given.direction)
    print(report(log.found))
    return 1 if any(one["verdict"] in ("wrong", "crash") for one in log.found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
