"""Kernels as a dispatch launches them: compiled for the device once, their arguments fixed when memory is bound; and
launches that come in the same row again and again, as one launch of a CUDA graph.
"""

from __future__ import annotations

import functools
import warnings
from abc import abstractmethod
from dataclasses import dataclass, field
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.compiler import ASTSource

from anydml.core.errors import Fault, MissingDependencyError, show
from anydml.core.late_imports import import_alone
from anydml.core.locks import make_lock
from anydml.core.memory import numpy_view
from anydml.core.symbolic_sizes import as_numbers
from anydml.engines.common.cache import Entry
from anydml.engines.common.program import Checking, Program, take_lock
from anydml.engines.common.tiles import ALIGNMENT
from anydml.engines.cuda.dependent_launch import WAIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.core.enums import DataType
    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.views import View

HOPPER = 90
"""The first architecture on which a kernel may get ready while the one before runs, and ask for memory."""
MOST_OVERLAPPING = 8
"""Programs a multiprocessor for which it does. Each starts a nanosecond later so: softmax of 262,144 programs takes 318
us instead of 252."""
IS_INTERPRETED: bool = triton.knobs.runtime.interpret
"""Whether Triton interprets kernels, over host memory, instead of compiling them."""

# What Triton itself asks; the public way takes 10 times as long.
current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda _index: 0)  # noqa: SLF001 - see above
"""The handle of the stream that PyTorch works on, on a device."""

POINTERS = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
            "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
            "fp16": np.float16, "fp32": np.float32, "fp64": np.float64}  # fmt: skip


def kind_of(data_type: DataType) -> str:
    """A type as Triton names it."""
    letters = "fp" if data_type.is_float else "i" if data_type.is_signed else "u"
    return f"{letters}{8 * data_type.size_in_bytes}"


@dataclass(frozen=True, slots=True)
class BlockDescriptor:
    """A matrix in place of a pointer, of which the hardware reads blocks by itself: rows of 16 bytes' multiples."""

    kind: str
    sizes: tuple[int, int]
    stride: int
    """From row to row, in elements; within a row it is 1."""
    block: tuple[int, int]

    def __str__(self) -> str:
        return f"tensordesc<{self.kind}[{self.block[0]}, {self.block[1]}]>"


class Loaded(dict[tuple[tuple[bool, ...], bool], Any]):
    """A kernel on the device, for all numbers: by which addresses are aligned, and whether there are few programs."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A Triton function with everything fixed but its addresses.

    Its parameters are pointers first, then numbers and tuples of numbers, then constants.
    """

    function: Any
    pointers: tuple[str | BlockDescriptor, ...]
    """The element types, as Triton names them: `u32`."""
    numbers: Numbers
    constants: Mapping[str, Any]
    programs: int
    warps: int
    figures: Figures
    registers: int | None = None
    """The most that a thread may use; None for as many as the compiler likes."""
    fuses: bool = True
    """Whether a product and a sum may become one operation, which rounds once."""
    stages: int = 1
    """Of a loop's loads, how many steps are on their way at once."""
    loaded: Loaded = field(default_factory=Loaded, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Pin open sizes that the compiler is to know."""
        object.__setattr__(self, "constants", {name: _pinned(given) for name, given in self.constants.items()})

    def prepare(self) -> None:
        """Compile it as it will be launched on aligned memory."""
        if not IS_INTERPRETED:
            self._compiled((True,) * len(self.pointers))

    def launch(self, addresses: Sequence[int]) -> Callable[[], Any]:
        """A function that launches it on the current stream."""
        constants = tuple(self.constants.values())
        if IS_INTERPRETED:
            return self._interpreted(addresses, constants)
        compiled = self._loaded(tuple([address % ALIGNMENT == 0 for address in addresses]))
        programs, index = self.programs, self.figures.index
        if any(isinstance(pointer, BlockDescriptor) for pointer in self.pointers):
            return self._by_blocks(compiled, addresses, (*self.numbers, *constants))
        run, loaded, metadata = compiled.run, compiled.function, compiled.packed_metadata
        arguments = (*addresses, *self.numbers, *constants)
        # What Triton's launcher calls itself: without its own work a launch takes the host a sixth less.
        fixed = (metadata, None, None, None, *arguments)
        if _has_no_scratch(run):
            fixed = (run.launch_cooperative_grid, run.launch_pdl, None, None, *fixed)
            run = run.launch

        def start() -> None:
            run(programs, 1, 1, current_stream(index), loaded, *fixed)

        return start if _has_one_device() else on_device(start, index)

    def _loaded(self, aligned: tuple[bool, ...]) -> Any:
        """It, compiled and on the device."""
        key = aligned, self._is_small
        if (found := self.loaded.get(key)) is None:
            found = self._compiled(aligned)
            with torch.cuda.device(self.figures.index):
                found.run.launch_pdl = WAIT in found.asm["ptx"]  # never for a kernel that does not wait
            self.loaded[key] = found
        return found

    @property
    def _is_small(self) -> bool:
        return self.programs <= MOST_OVERLAPPING * self.figures.multiprocessors

    def _compiled(self, aligned: tuple[bool, ...]) -> Any:
        names = self.function.arg_names
        numbers = tuple(_type_of(number) for number in self.numbers)
        pointers = (str(of) if isinstance(of, BlockDescriptor) else f"*{of}" for of in self.pointers)
        types = (*pointers, *numbers, *("constexpr",) * len(self.constants))
        return _compile(
            self.function,
            tuple(zip(names, types, strict=True)),
            tuple(self.constants.items()),
            aligned,
            self.warps,
            self.registers,
            self.fuses,
            self.stages,
            self._is_small,
            self.figures.target,
            self.figures.index,
        )

    def _by_blocks(self, compiled: Any, addresses: Sequence[int], others: tuple[Any, ...]) -> Callable[[], Any]:
        """As `launch`, with descriptors of blocks made now: Triton's own launcher makes them at every launch."""
        import_alone("triton.backends.nvidia.driver")
        from triton.backends.nvidia.driver import make_tensordesc_arg  # which needs a driver

        found, arguments = iter(compiled.metadata.tensordesc_meta), list[Any]()
        for of, address in zip(self.pointers, addresses, strict=True):
            arguments += (
                make_tensordesc_arg(_Described(of, address), next(found))
                if isinstance(of, BlockDescriptor)
                else [address]
            )
        run, index, programs = compiled.run, self.figures.index, self.programs
        cells = [cell.cell_contents for cell in run.launch.__closure__]
        (launch,) = (found for found in cells if isinstance(found, BuiltinFunctionType))
        loaded, metadata = compiled.function, compiled.packed_metadata
        fixed = (run.launch_cooperative_grid, run.launch_pdl, None, None, metadata, None, None, None)
        given = (*arguments, *others)

        def start() -> None:
            launch(programs, 1, 1, current_stream(index), loaded, *fixed, *given)

        return start if _has_one_device() else on_device(start, index)

    def _interpreted(self, addresses: Sequence[int], constants: tuple[Any, ...]) -> Callable[[], Any]:
        memory = [
            torch.from_numpy(numpy_view(address, (1,), (1,), np.dtype(POINTERS[str(pointer)])))
            for address, pointer in zip(addresses, self.pointers, strict=True)
        ]
        numbers = map(_interpreted_number, self.numbers)
        return functools.partial(_interpret, self.function[(self.programs,)], *memory, *numbers, *constants)


def _pinned(given: Any) -> Any:
    """A constant, or a named tuple of some, with the numbers of open sizes."""
    if not isinstance(given, tuple):
        return as_numbers(given)
    parts = map(_pinned, given)
    return type(given)(*parts) if hasattr(given, "_fields") else tuple(parts)


Bases = tuple[tuple[str, int], ...]
"""By pointer the tensor, and the offset of the first element in it, in bytes."""


def bases_of(views: Sequence[View], offsets: Sequence[int]) -> Bases:
    """The pointers of views, whose first elements lie at offsets in elements."""
    pairs = zip(views, offsets, strict=True)
    return tuple((view.tensor, offset * view.data_type.size_in_bytes) for view, offset in pairs)


@dataclass(frozen=True, slots=True)
class KernelProgram(Program):
    """A verb that is one kernel."""

    kernel: Kernel
    bases: Bases

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        return self.kernel.launch([places[tensor] + offset for tensor, offset in self.bases])


class _Described:
    """A matrix as Triton's maker of descriptors asks for it."""

    padding = "zero"

    def __init__(self, of: BlockDescriptor, address: int) -> None:
        self.shape, self.strides, self._address = list(of.sizes), [of.stride, 1], address

    @property
    def base(self) -> _Described:
        """Itself."""
        return self

    def data_ptr(self) -> int:
        """The address."""
        return self._address


@functools.cache
def _has_one_device() -> bool:
    return bool(torch.cuda.device_count() == 1)


def _has_no_scratch(run: Any) -> bool:
    """Whether Triton's launcher is of the kind known here, and has no memory to allocate at each launch."""
    sizes = [getattr(run, f"{kind}_scratch_size", 1) for kind in ("global", "profile")]
    return sizes == [0, 0] and hasattr(run, "launch_pdl") and hasattr(run, "launch_cooperative_grid")


def _type_of(number: int | tuple[int, ...]) -> Any:
    return tuple("i64" for _ in number) if isinstance(number, tuple) else "i64"


@functools.cache
def _compile(
    function: Any,
    signature: tuple[tuple[str, Any], ...],
    constants: tuple[tuple[str, Any], ...],
    aligned: tuple[bool, ...],
    warps: int,
    registers: int | None,
    fuses: bool,
    stages: int,
    is_small: bool,
    target: Any,
    _index: int,  # a compiled kernel is loaded on one device
) -> Any:
    attributes = {(i,): [["tt.divisibility", ALIGNMENT]] for i, is_aligned in enumerate(aligned) if is_aligned}
    source = ASTSource(function, dict(signature), dict(constants), attributes)
    options = {"num_warps": warps, "num_stages": stages, "maxnreg": registers, "enable_fp_fusion": fuses}
    options["launch_pdl"] = is_small and target.arch >= HOPPER
    try:
        # Processes that start together compile it once: Triton keeps it, and the others find it there.
        with Entry("triton", f"{source.hash()} {options} {target}", "").claim():
            return triton.compile(source, target=target, options=options)
    except Exception as error:
        rule = f"Triton could not compile a kernel for {target.backend} {target.arch} ({show(error)})"
        fault = Fault(field="name", rule=rule, value="cuda", way_out="move the arrays to the host, and use Device()")
        raise MissingDependencyError("Device", fault) from error


def _interpreted_number(number: int | tuple[int, ...]) -> Any:
    """As a compiled kernel has it, of 64 bits: the interpreter would take 32 where those hold it, and products wrap."""
    import_alone("triton.runtime.interpreter")
    from triton.runtime.interpreter import TensorHandle

    if isinstance(number, tuple):
        return tuple(map(_interpreted_number, number))
    return tl.tensor(TensorHandle(np.array([number], np.int64), tl.int64), tl.int64)


def _interpret(run: Callable[..., Any], *arguments: Any) -> None:
    """Run an interpreted kernel, which computes in NumPy, without the warnings that hardware does not give."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Conversion of an array with ndim", DeprecationWarning)
        run(*arguments)


def on_device(start: Callable[[], None], index: int) -> Callable[[], None]:
    """The same on a machine of several devices, whichever is current when it is launched."""

    def start_there() -> None:
        with torch.cuda.device(index):
            start()

    return start_there


# Rows of launches as a CUDA graph: to launch a kernel takes the host 5 us, and most kernels of a network with one row
# or one image take the device less.


MOST_STREAMS = 64
"""Streams that are kept."""
DIRECT = 2
"""Runs before a row of launches is captured, which takes about as long as they do."""


class Replay:
    """A row of launches, captured when it is run for the third time; captured by somebody else, it is launched."""

    __slots__ = ("_graph", "_index", "_launch", "_left", "_replay")

    def __init__(self, launch: Callable[[], Any], index: int) -> None:
        self._launch, self._index = launch, index
        self._left = DIRECT
        self._graph: Any = None
        self._replay: Callable[[], None] = launch

    def __call__(self) -> None:
        """Launch all of them."""
        if torch.cuda.is_current_stream_capturing():
            self._launch()
        elif self._graph is not None:
            self._replay()
        elif self._left:
            self._left -= 1
            self._launch()
        else:
            self._capture()
            self()

    def _capture(self) -> None:
        """Nothing runs meanwhile. What cannot be captured is launched from then on."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._index), torch.cuda.stream(torch.cuda.Stream(self._index)):
            try:
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._launch()
                finally:
                    graph.capture_end()
                self._graph = graph
                self._replay = graph.replay if torch.cuda.device_count() == 1 else on_device(graph.replay, self._index)
            except RuntimeError:
                self._left = -1


class Checked(Checking):
    """Launches that look at indices, and leave what they found where the host sees it: one row of them at a time."""

    __slots__ = ("_event", "_index", "_lock", "_subject")

    def __init__(self, index: int, subject: str) -> None:
        self._index, self._subject, self._lock = index, subject, make_lock()
        self._event = None if IS_INTERPRETED else torch.cuda.Event()

    @abstractmethod
    def launch(self) -> None:
        """Launch all, and wait for nothing."""

    @abstractmethod
    def look(self) -> None:
        """Raise the first fault of the last launch, which has ended."""

    def start(self) -> Callable[[], None]:
        """Launch; the function waits, and raises the fault. Nobody can wait for what is captured: its replays write
        nothing for a bad index.
        """
        if self._event is not None and torch.cuda.is_current_stream_capturing():
            self.launch()
            return _at_once
        take_lock(self._lock, self._subject)
        try:
            self.launch()
            if self._event is not None:
                self._event.record(_stream(self._index))
        except BaseException:
            self._lock.release()
            raise
        return self._finish

    def _finish(self) -> None:
        try:
            if self._event is not None:
                self._event.synchronize()
            self.look()
        finally:
            self._lock.release()


class CheckedReplay(Checked):
    """A row of launches some of which look at indices, replayed as one."""

    __slots__ = ("_looks", "_row")

    def __init__(self, launches: Sequence[Callable[[], Any]], index: int) -> None:
        super().__init__(index, "graph")
        starts = [one.launch if isinstance(one, Checked) else one for one in launches]
        self._looks = [one.look for one in launches if isinstance(one, Checked)]

        def launch() -> None:
            for start in starts:
                start()

        self._row = Replay(launch, index)

    def launch(self) -> None:
        """Replay it."""
        self._row()

    def look(self) -> None:
        """Raise the first fault."""
        for look in self._looks:
            look()


def replay_of(launch: Any, index: int) -> Callable[[], Any]:
    """The replay of a row of launches."""
    launches = getattr(launch, "launches", ())
    is_checked = any(isinstance(one, Checked) for one in launches)
    return CheckedReplay(launches, index) if is_checked else Replay(launch, index)


def _at_once() -> None:
    """Nothing is waited for."""


_streams: dict[tuple[int, int], torch.cuda.Stream] = {}


def _stream(index: int) -> torch.cuda.Stream:
    """The current stream: PyTorch takes 10 times as long to make one."""
    key = index, current_stream(index)
    if (found := _streams.get(key)) is None:
        if len(_streams) >= MOST_STREAMS:
            _streams.clear()
        found = _streams[key] = torch.cuda.current_stream(index)
    return found
