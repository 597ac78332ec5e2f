"""Arrays that say they lie on a GPU, and an engine that says it works there: addresses that nobody reads."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from anydml.core.enums import NUMPY_TYPES
from anydml.core.memory import Buffer, packed_strides
from anydml.engines.common.engine import Engine
from anydml.engines.common.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class OnGpu:
    """An array that shows `__cuda_array_interface__` and nothing else."""

    def __init__(self, sizes: tuple[int, ...], address: int = 1 << 40, typestr: str = "<f4", **more: Any) -> None:
        self.shown = {
            "version": 3,
            "shape": sizes,
            "typestr": typestr,
            "data": (address, False),
            "strides": None,
            **more,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.shown


class OnSecondGpu(OnGpu):
    """One that says by DLPack which GPU it lies on."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 1)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("nobody needs to ask: the interface has said it all")


class Recorder(Program):
    """A program that notes what it is bound to and how often it runs."""

    def __init__(self, engine: Gpu) -> None:
        self._engine = engine

    def bind(self, places: Mapping[str, int]) -> Callable[[], None]:
        self._engine.bound.append(dict(places))
        return lambda: self._engine.ran.append(dict(places))


class Gpu(Engine):
    """An engine that runs nothing."""

    name = "cuda"

    def __init__(self, index: int = 0) -> None:
        self.memory = f"cuda:{index}"
        self.bound: list[dict[str, int]] = []
        self.ran: list[dict[str, int]] = []

    def compile(self, primitive: object, constants: frozenset[str] = frozenset()) -> Recorder:
        return Recorder(self)

    def reserve(self, size: int) -> Buffer:
        return Buffer(3 << 40, size, True, None, self.memory)


class dtype:  # noqa: N801 - as PyTorch has it
    """A type of PyTorch's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Tensor:
    """What the runtime asks a PyTorch tensor on a GPU."""

    is_cuda = True

    def __init__(self, kind: dtype, sizes: tuple[int, ...], address: int, index: int = 0) -> None:
        self.dtype, self.shape, self.address, self.index = kind, tuple(sizes), address, index
        self.strides = packed_strides(self.shape)
        self.requires_grad = self.negated = False
        self.layout = "strided"

    def stride(self) -> tuple[int, ...]:
        if self.layout != "strided":
            raise RuntimeError("sparse tensors do not have strides")
        return self.strides

    def data_ptr(self) -> int:
        return self.address

    def get_device(self) -> int:
        return self.index

    def is_neg(self) -> bool:
        return self.negated

    def untyped_storage(self) -> object:
        return object()


class FakeTorch:
    """What the runtime asks of PyTorch where there is a GPU; the streams that something ran on are noted."""

    Tensor = Tensor
    strided = "strided"

    def __init__(self) -> None:
        for data_type in NUMPY_TYPES:
            setattr(self, data_type.name.lower(), dtype(data_type.name.lower()))
        self.current, self.next_address, self.is_capturing = 0, 5 << 40, False
        self.entered: list[int] = []
        self.waited: list[tuple[int, Any]] = []
        self.cuda = SimpleNamespace(
            stream=self._stream,
            current_stream=self._current_stream,
            default_stream=lambda index: self._stream_of(0),
            device_count=lambda: 1,
            is_current_stream_capturing=lambda: self.is_capturing,
            ExternalStream=lambda handle, device: SimpleNamespace(handle=handle),
        )

    @staticmethod
    def device(name: str) -> str:
        return name

    def empty(self, sizes: tuple[int, ...], *, dtype: Any, device: str) -> Any:
        self.next_address += 4096
        return Tensor(dtype, sizes, self.next_address, int(device.partition(":")[2]))

    @contextmanager
    def _stream(self, stream: Any) -> Iterator[None]:
        self.entered.append(stream.handle)
        self.current, before = stream.handle, self.current
        yield
        self.current = before

    def _current_stream(self, index: int) -> Any:
        return self._stream_of(self.current)

    def _stream_of(self, handle: int) -> Any:
        return SimpleNamespace(
            handle=handle,
            cuda_stream=handle,
            wait_stream=lambda other: self.waited.append((handle, other.handle)),
            wait_event=lambda event: self.waited.append((handle, event)),
            record_event=lambda: handle or "0",  # an event is known by its stream, and is true
        )
