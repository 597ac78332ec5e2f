"""Arrays that say they lie on a GPU, and an engine that says it works there: addresses that nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.memory import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


class Recorder:
    """A program that notes what it is bound to and how often it runs."""

    def __init__(self, engine: Gpu) -> None:
        self._engine = engine

    def bind(self, places: Mapping[str, int]) -> Callable[[], None]:
        self._engine.bound.append(dict(places))
        return lambda: self._engine.ran.append(dict(places))


class Gpu:
    """An engine that runs nothing."""

    name = "cuda"

    def __init__(self, index: int = 0) -> None:
        self.memory = f"cuda:{index}"
        self.bound: list[dict[str, int]] = []
        self.ran: list[dict[str, int]] = []

    def compile(self, primitive: object) -> Recorder:
        return Recorder(self)

    def reserve(self, size: int) -> Buffer:
        return Buffer(3 << 40, size, True, None, self.memory)
