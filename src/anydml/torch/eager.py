"""Operators that PyTorch runs one by one on the device: each a program of its own, kept by the tensors' layouts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from anydml.core.locks import make_lock
from anydml.torch.backend import Options, Program
from anydml.torch.decompositions import decompositions
from anydml.torch.lower.context import DATA_TYPES
from anydml.torch.operator_trace import trace_operator
from anydml.torch.partition import BY_DATA

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_NUMBERS = 4
"""Programs of an operator for the same tensors: numbers that change at every call, as a schedule's, are PyTorch's."""
_MOST_PROGRAMS = 2048
"""Programs that are kept: a training step of ResNet-50 has some 400."""
_UNKNOWN: Any = object()
_NUMBERS = (int, float, bool, complex)
_MANY = 5000
"""Operators one by one after which is said what makes it faster."""
_MIXED = ("index", "index_put", "index_put_", "_index_put_impl_", "_index_put_impl")
"""Operators whose indices may be tensors of the host."""
_QUIET = frozenset(
    (
        "masked_select", "nonzero", "zero_", "fill_", "arange", "eye", "linspace", "equal", "is_set_to", "isfinite",
        "range", "logspace", "tril_indices", "triu_indices",
    )
)  # fmt: skip
"""What gains nothing: results whose sizes depend on data, and tensors of one number."""


class _Connection:
    """How memory goes to the device and back."""

    to_host: Callable[[Any], Any]
    from_host: Callable[[Any, int], Any]
    replaced: Callable[..., Any]
    engine: Callable[[int | None], str]


_programs: dict[Any, Program | None] = {}
_counts: dict[Any, int] = {}
_lock = make_lock()
_told: set[str] = set()
_calls = 0


def connect(to_host: Any, from_host: Any, replaced: Any, engine: Any) -> None:
    """Say how memory goes to the device and back."""
    _Connection.to_host, _Connection.from_host = staticmethod(to_host), staticmethod(from_host)
    _Connection.replaced, _Connection.engine = staticmethod(replaced), staticmethod(engine)


def kernel(target: Any) -> Callable[..., Any]:
    """What PyTorch calls for an operator on the device."""
    schema = target._schema  # noqa: SLF001 - PyTorch's name
    written = [one.name for one in schema.arguments if one.alias_info is not None and one.alias_info.is_write]
    name = schema.name.removeprefix("aten::")
    is_quiet = name in _QUIET or torch.Tag.nondeterministic_seeded in target.tags  # random numbers are PyTorch's
    pure = None if is_quiet else _pure(target) if written else target
    names = [one.name for one in schema.arguments]
    numbered = [k for k, one in enumerate(schema.arguments) if str(one.type) == "Tensor" and not one.kwarg_only]
    is_out = any(one.is_out for one in schema.arguments)
    is_apart = bool(written) and any(one.alias_info is None for one in schema.returns)
    """Whether what it writes is not what it gives, as rrelu_with_noise's noise."""

    def work(*args: Any, **named: Any) -> Any:
        own = _Own()
        given = [own.host(one) for one in args]
        more = {key: own.host(one) for key, one in named.items()}
        if "device" in more:
            own.see(more["device"])
            more["device"] = torch.device("cpu")
        if own.is_mixed and name not in _MIXED:
            raise own.refusal("cpu")
        _count()
        call, plain = target, pure
        if is_apart:
            return own.back(call(*given, **more))
        if any(k < len(given) and type(given[k]) in _NUMBERS for k in numbered):
            # PyTorch hands over 0-dimensional tensors of its own making as numbers: the overload for these has them
            call, plain = target.overloadpacket, pure and pure.overloadpacket
        if not written:
            found = None if pure is None else _run(pure, plain, given, more, own)
            return own.back(call(*given, **more) if found is None else found)
        originals = {**dict(zip(names, args, strict=False)), **named}
        places = {**dict(zip(names, given, strict=False)), **more}
        rest = {key: one for key, one in more.items() if key not in written} if is_out else more
        found = None if pure is None else _run(pure, plain, given, rest, own)
        if found is None and is_out:  # into tensors that PyTorch may give other sizes
            fresh = {key: torch.empty(0, dtype=places[key].dtype) for key in written}
            target(*given, **{**more, **fresh})
            found = [fresh[key] for key in written]
        if found is None:
            call(*given, **more)
        else:
            several = found if isinstance(found, (list, tuple)) else [found]
            pairs = list(zip(written, several, strict=False))
            if any(not _fits(places[key], one, is_out=is_out) for key, one in pairs):
                target(*given, **more)  # whose error it is
            for key, one in pairs:
                _write(originals[key], places[key], one, own)
        results = [originals[key] for key in written[: len(schema.returns)]]
        return results[0] if len(results) == 1 else tuple(results) if results else None

    return work


_BATCH_NORMS = (
    "_native_batch_norm_legit_no_training", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
)  # fmt: skip


def _normalized(*args: Any) -> Any:
    """Batch normalisation by learnt moments, without those of the batch, which have no elements."""
    found, _, _ = getattr(torch.ops.aten, _BATCH_NORMS[0]).default(*args)
    return found


def batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    """native_batch_norm, which writes the running moments though its schema does not say so."""
    own = _Own()
    given = [own.host(one) for one in (x, weight, bias)]
    moments = [own.host(one) for one in (mean, variance)]
    aten = {name: getattr(torch.ops.aten, name) for name in _BATCH_NORMS}
    if not training:
        target = aten["_native_batch_norm_legit_no_training"].default
        found = _run(target, _normalized, [*given, *moments, momentum, eps], {}, own)
        found = None if found is None else (*found, torch.empty(0), torch.empty(0))
    elif mean is None or variance is None:
        target = aten["_native_batch_norm_legit"].no_stats
        found = _run(target, target, [*given, True, momentum, eps], {}, own)
    else:
        target = aten["_native_batch_norm_legit_functional"].default
        found = _run(target, target, [*given, *moments, True, momentum, eps], {}, own)
        if found is not None:
            for old, new in zip(moments, found[3:], strict=True):
                old.copy_(new)
    if found is None:
        found = torch.ops.aten.native_batch_norm.default(*given, *moments, training, momentum, eps)
    return own.back(tuple(found[:3]))


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors of the host as one of the device's."""

    def work(*args: Any, **named: Any) -> Any:
        own = _Own()
        return own.back(function(*map(own.host, args), **{name: own.host(one) for name, one in named.items()}))

    return work


def _fits(place: Any, found: Any, *, is_out: bool) -> bool:
    """Whether PyTorch writes such a result there; only what is given as `out` takes other sizes."""
    return torch.can_cast(found.dtype, place.dtype) and (is_out or place.shape == found.shape)


def _write(original: Any, place: Any, found: Any, own: _Own) -> None:
    """A result into the tensor that was given for it, which takes its sizes."""
    if place.shape == found.shape:
        place.copy_(found)
    else:
        made = _Connection.from_host(found.to(place.dtype), own.index or 0)
        _Connection.replaced(original, made.untyped_storage(), made.storage_offset(), found.size(), found.stride())


def _pure(target: Any) -> Any:
    """The operator that gives what this one writes; None where there is none."""
    schema = target._schema  # noqa: SLF001 - PyTorch's name
    name, overload = schema.name.removeprefix("aten::"), schema.overload_name
    if name.endswith("_") and not name.endswith("__"):
        name = name.removesuffix("_")
    elif overload == "out":
        overload = ""
    elif overload.endswith("_out"):
        overload = overload.removesuffix("_out")
    elif name.endswith("__") and name.startswith("__i"):
        name = f"__{name[3:]}"
    else:
        return None
    packet = getattr(torch.ops.aten, name, None)
    wanted = [(one.name, str(one.type)) for one in schema.arguments if not one.is_out]
    for each in (overload, "Tensor", *(packet.overloads() if packet else ())):
        found = getattr(packet, each or "default", None)
        if found is None:
            continue
        several = found._schema.arguments  # noqa: SLF001 - PyTorch's name
        if wanted == [(one.name, str(one.type)) for one in several] and not any(one.alias_info for one in several):
            return found
    return None


class _Own:
    """One call's way from the device to the host and back."""

    def __init__(self) -> None:
        self.index: int | None = None
        self.is_mixed = False
        """Whether a tensor of the host, of more than one number, was given too."""

    def see(self, device: Any) -> None:
        """Take the number of a device that is named."""
        if self.index is None and device is not None:
            self.index = torch.device(device).index or 0

    def host(self, one: Any) -> Any:
        """An argument as one of the host."""
        if isinstance(one, torch.Tensor):
            if one.device.type == "cpu":
                self.is_mixed = self.is_mixed or one.dim() > 0
                return one
            if self.index is None:
                self.index = one.device.index or 0
            elif self.index != (one.device.index or 0):
                raise self.refusal(str(one.device))
            return _Connection.to_host(one)
        if isinstance(one, (list, tuple)):
            return [self.host(each) for each in one]
        return one

    def refusal(self, other: str) -> RuntimeError:
        """PyTorch's own error for tensors on two devices."""
        own = f"privateuseone:{self.index or 0}"
        return RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {own} and {other}!"
        )

    def back(self, found: Any) -> Any:
        """Results as those of the device."""
        if isinstance(found, torch.Tensor):
            return _Connection.from_host(found, self.index or 0)
        if isinstance(found, (list, tuple)):
            return (
                type(found)(self.back(one) for one in found)
                if type(found) in (list, tuple)
                else tuple(map(self.back, found))
            )
        return found


def _run(target: Any, call: Any, given: list[Any], named: dict[str, Any], own: _Own) -> Any:
    """Run by a program of ours; None where PyTorch is to."""
    tensors: list[Any] = []
    try:
        signature = (call, own.index, *(_key(one, tensors) for one in given), *(
            (name, _key(named[name], tensors)) for name in sorted(named)
        ))  # fmt: skip
        program = _programs.get(signature, _UNKNOWN)
    except TypeError:  # an argument that is no key
        return None
    if program is _UNKNOWN:
        with _lock:  # FX traces in one thread at a time
            program = _compile(target, call, given, named, tensors, own)
            _keep(signature, program)
    if program is None:
        return None
    found = program(list(tensors))
    return found[0] if len(target._schema.returns) == 1 and not _is_list(target) else tuple(found)  # noqa: SLF001 - PyTorch's name


def _keep(signature: Any, program: Program | None) -> None:
    """Keep a program for tensors of the same sizes; the oldest go where many sizes came."""
    if len(_programs) >= _MOST_PROGRAMS:
        for key in list(_programs)[: _MOST_PROGRAMS // 2]:
            del _programs[key]
        _counts.clear()
    _programs[signature] = program


def _is_list(target: Any) -> bool:
    return str(target._schema.returns[0].type) == "List[Tensor]"  # noqa: SLF001 - PyTorch's name


def _key(one: Any, tensors: list[Any]) -> Any:
    """What of an argument a program depends on; tensors are kept apart."""
    if isinstance(one, torch.Tensor):
        tensors.append(one)
        return one.dtype, one.shape, one.stride()
    if isinstance(one, list):
        return tuple(_key(each, tensors) for each in one)
    return type(one), one


def _compile(
    target: Any, call: Any, given: list[Any], named: dict[str, Any], tensors: list[Any], own: _Own
) -> Program | None:
    """A program of one operator; None where PyTorch runs it, which is said once."""
    if not tensors or any(one.numel() == 0 for one in tensors):
        return None
    sort = (target, *((one.dtype, one.shape) for one in tensors))
    count = _counts[sort] = _counts.get(sort, 0) + 1
    if count > _MOST_NUMBERS:
        return None

    def work(*several: Any) -> Any:
        rest = iter(several)
        args = [_put(one, rest) for one in given]
        more = {name: _put(named[name], rest) for name in sorted(named)}
        found = call(*args, **more)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    with torch.no_grad():
        call(*given, **named)  # arguments that do not go together have PyTorch's own error
        try:
            module = trace_operator(work, decompositions(), tensors)
        except RuntimeError as error:  # sizes that depend on data, as those of a CTC loss
            _tell(target, str(error).partition("\n")[0])
            return None
    module.graph.eliminate_dead_code()
    for node in module.graph.nodes:
        if node.op == "get_attr":  # a number that a decomposition makes a tensor
            node.meta["val"] = getattr(module, node.target)
    program = Program(module, Options(engine=_Connection.engine(own.index)), ())
    program.plan()
    if program.parts:
        return program
    why = next(iter(program.fallbacks), BY_DATA)
    if BY_DATA not in why and all(one.dtype in DATA_TYPES for one in tensors):
        _tell(target, why)
    return None


def _tell(target: Any, why: str) -> None:
    """Warn once of an operator that PyTorch runs."""
    name = str(target).rpartition(".")[0]
    if name not in _told:
        _told.add(name)
        warnings.warn(f"{name} runs by PyTorch on the host: {why}", UserWarning, stacklevel=5)


def _put(one: Any, tensors: Any) -> Any:
    if isinstance(one, torch.Tensor):
        return next(tensors)
    return [_put(each, tensors) for each in one] if isinstance(one, list) else one


def _count() -> None:
    """Say once what makes many operators fast."""
    global _calls
    _calls += 1
    if _calls == _MANY:
        warnings.warn(
            f"{_MANY} operators ran one by one on the device;"
            " torch.compile(model, backend='anydml') runs a model as one graph",
            UserWarning,
            stacklevel=3,
        )


# The cells of LSTM and GRU that PyTorch calls on a device that is not the host, and their gradients.


def _sum(*several: Any) -> Any:
    """The sum of the tensors that are there."""
    given = [one for one in several if one is not None]
    return sum(given[1:], given[0])


def lstm_cell(inputs: Any, hidden: Any, cell: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """The hidden state, the cell's, and the gates after their functions."""
    i, f, g, o = _sum(inputs, hidden, input_bias, hidden_bias).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * cell + i * g
    return o * after.tanh(), after, torch.cat((i, f, g, o), 1)


def lstm_cell_backward(grad: Any, grad_cell: Any, cell: Any, after: Any, gates: Any, has_bias: bool) -> Any:
    """The gradients of the gates, of the cell's state and of a bias."""
    i, f, g, o = gates.chunk(4, 1)
    bent = after.tanh()
    zeros = torch.zeros_like(cell)
    grad, grad_cell = (zeros if one is None else one for one in (grad, grad_cell))
    inner = grad * o * (1 - bent * bent) + grad_cell
    found = torch.cat(
        (
            inner * g * i * (1 - i),
            inner * cell * f * (1 - f),
            inner * i * (1 - g * g),
            grad * bent * o * (1 - o),
        ),
        1,
    )
    return found, inner * f, found.sum(0) if has_bias else torch.empty(0)


def gru_cell(inputs: Any, hidden: Any, state: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """The hidden state, and what its gradient reads."""
    a, b = _sum(inputs, input_bias).chunk(3, 1), _sum(hidden, hidden_bias).chunk(3, 1)
    r, z = (a[0] + b[0]).sigmoid(), (a[1] + b[1]).sigmoid()
    n = (a[2] + r * b[2]).tanh()
    return n + z * (state - n), torch.cat((r, z, n, state, b[2]), 1)


def gru_cell_backward(grad: Any, kept: Any, has_bias: bool) -> Any:
    """The gradients of both gates, of the state and of both biases."""
    r, z, n, state, h = kept.chunk(5, 1)
    inner = grad * (1 - z) * (1 - n * n)
    reset, update = inner * h * r * (1 - r), grad * (state - n) * z * (1 - z)
    inputs, hidden = torch.cat((reset, update, inner), 1), torch.cat((reset, update, inner * r), 1)
    biases = (inputs.sum(0), hidden.sum(0)) if has_bias else (torch.empty(0), torch.empty(0))
    return inputs, hidden, grad * z, *biases


CELLS: dict[str, Callable[..., Any]] = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
