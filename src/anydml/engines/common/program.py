"""Programs: what an engine plans of verbs, to be bound to memory once and run many times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from anydml.core.errors import BindingError, Fault
from anydml.core.locks import make_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.ir.verbs import Map, Reduce


class Place(NamedTuple):
    """Where a tensor lies, told before arrays are there."""

    array: int | None
    """The number of an array; None where the memory is known."""
    offset: int
    """In bytes, from the array's first element; the address itself where the memory is known."""


class OpenSeries(Protocol):
    """Programs one after the other, for all sizes of which the same was found."""

    def at(self, numbers: Sequence[int | float]) -> Callable[..., Any]:
        """The function for some sizes, given all numbers of their tape."""

    def movable(self) -> Callable[[Sequence[int | float]], Callable[..., Any]]:
        """The same for whoever runs one size at a time: a function for other sizes is the one before, changed."""


class Program(ABC):
    """A primitive made ready to run."""

    __slots__ = ()
    layouts: Mapping[str, Map | Reduce] = MappingProxyType({})
    """Layouts that it wants ahead: by a name of its own, the verb of one constant that writes it, packed.

    When it is bound, the name has its place. What its layouts are of, it reads no more itself.
    """

    @abstractmethod
    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Attach each tensor to its memory, given by the address of its first element. The result dispatches.

        What is bound was checked before, and whoever binds keeps it alive. A dispatch validates nothing but the
        values of indices, which it does before it writes.
        """

    def direct(self, _tensors: Sequence[str]) -> Callable[..., Any] | None:
        """A function that runs it on NumPy's host arrays, one for each tensor in order; None where it must be bound.

        They were checked before, as those that are bound are.
        """
        return None


# Launches that have memory of their own, or write over what they read: one at a time, from whatever threads.


class _Exclusive:
    __slots__ = ("_launch", "_lock", "_subject")

    def __init__(self, launch: Callable[[], Any], subject: str, lock: Any) -> None:
        self._launch, self._subject, self._lock = launch, subject, lock

    def __call__(self) -> Any:
        take_lock(self._lock, self._subject)
        try:
            return self._launch()
        finally:
            self._lock.release()


def take_lock(lock: Any, subject: str) -> None:
    """Wait for a launch's lock, which a thread that holds it is refused."""
    if lock._is_owned():  # noqa: SLF001 - RLock has no public way to ask whether this thread holds it
        rule = "this binding is running already, on the same thread"
        way_out = "bind again for a signal's handler, a destructor or a callback that dispatches meanwhile"
        raise BindingError(subject, Fault(field="", rule=rule, way_out=way_out))
    lock.acquire()


def one_at_a_time(launch: Callable[[], Any], subject: str, lock: Any = None) -> Callable[[], Any]:
    """The same launch, for which a second thread waits until the first is done; so does every launch with its lock."""
    return _Exclusive(launch, subject, lock or make_lock())


class Checking(ABC):
    """A launch that looks at indices before it writes, of which the host may ask what it found once more is under way.

    Called as it is, it asks at once.
    """

    __slots__ = ()

    @abstractmethod
    def start(self) -> Callable[[], None]:
        """Launch it; the function waits for what it found, and raises its fault. It must be called."""

    def __call__(self) -> None:
        """Launch it, and wait for what it found."""
        self.start()()
