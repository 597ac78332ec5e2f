"""InferenceSession: a model behind ONNX Runtime's interface."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from anydml.core.errors import BindingError, DmlError, Fault, ModelFileError, printable, show
from anydml.core.late_imports import import_alone
from anydml.core.locks import cached_property, make_lock
from anydml.engines.common.threads import get_num_threads, number_cell
from anydml.graph.pass_names import graph_passes
from anydml.onnx.model import load
from anydml.onnx.program import OutsideError
from anydml.onnx.protobuf import model_message, tensor_of
from anydml.onnx.read import FORMS, Source, read_model
from anydml.onnxruntime.binding import IOBinding
from anydml.onnxruntime.description import NodeArg, describe_model, describe_value
from anydml.onnxruntime.options import GraphOptimizationLevel, RunOptions, SessionOptions, read_options
from anydml.onnxruntime.ort_errors import Fail, NoSuchFile, refuse, refuse_type, renamed, told
from anydml.onnxruntime.ort_value import OrtValue, on_host
from anydml.onnxruntime.providers import find_device, read_providers
from anydml.onnxruntime.type_names import dtype_of, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.onnx.checks import TensorInfo
    from anydml.onnx.ir import Graph, Tensor, ValueInfo, ValueType
    from anydml.onnx.model import Model
    from anydml.onnxruntime.description import ModelMetadata
    from anydml.runtime.device import Device
    from anydml.runtime.profiler_hook import Recorder


# The inputs of a session, as its model takes them


def read_value(name: str, value: Any, kind: ValueType | None, known: Mapping[str, TensorInfo], subject: str) -> Any:
    """A value for an input of a declared type: lists become arrays of that type, OrtValues what they hold.

    What ONNX Runtime refuses and the model takes, such as a tensor of PyTorch's, is left to the model.
    """
    if isinstance(value, OrtValue):
        return value.held
    if isinstance(value, np.ndarray):
        is_plain = value.dtype.isnative and type(value) is np.ndarray
        return value if is_plain else np.asarray(value, value.dtype.newbyteorder("="))
    if kind is None or kind.kind != "tensor":
        return value
    if value is None or isinstance(value, (str, dict)):
        raise refuse_type(subject, name, f"an array, being {type_of(kind)}", value)
    if isinstance(value, (list, tuple, int, float)) and name in known:
        dtype = known[name].element.dtype
        try:
            return np.array(value, dtype)
        except Exception as error:
            rule = f"input '{printable(name)}' could not be made an array of {dtype.name} ({show(error)})"
            raise refuse(subject, name, rule) from error
    return value


# Threads of one session, where others have another number


_lock = make_lock()
_running: list[OwnThreads] = []
"""The sessions that run with a number of their own: of several the last to begin decides, answers being the same."""
_before = 0


class OwnThreads:
    """Within it runs have so many threads; when all that asked for a number have ended, as many as before."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        global _before
        with _lock:
            if not _running:
                _before = get_num_threads()
            _running.append(self)
            number_cell.value = self.number

    def __exit__(self, *_: object) -> None:
        with _lock:
            if self in _running:  # unless this process was forked meanwhile
                _running.remove(self)
            number_cell.value = _running[-1].number if _running else _before


def _after_fork() -> None:
    """A child has none of the threads that ran with a number of their own, but for the one that forked."""
    if _running:
        del _running[:]
        number_cell.value = _before


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# A model as options change it before it is compiled: sizes bound, and initializers replaced


def prepare(given: Any, options: SessionOptions) -> Source:
    """Read a model, and change it as the options say; write it where they ask for it."""
    if not isinstance(given, (*FORMS, Source)):
        raise refuse_type("InferenceSession", "path_or_bytes", "a path, the bytes of a model, or a ModelProto", given)
    try:
        source = read_model(given, is_kept=True)
    except ModelFileError as error:
        if isinstance(given, (str, os.PathLike)) and not Path(given).exists():
            raise NoSuchFile(error.subject, error.faults) from None
        raise
    source = replace(source, model=replace(source.model, graph=_changed(source.model.graph, options)))
    if options.optimized_model_filepath:
        _write(source, options.optimized_model_filepath)
    return source


def _changed(graph: Graph, options: SessionOptions) -> Graph:
    """A graph with the sizes and initializers that the options give."""
    if options.size_names or options.denotations:
        inputs, outputs, others = (
            tuple(_sized(info, options) for info in infos) for infos in (graph.input, graph.output, graph.value_info)
        )
        graph = replace(graph, input=inputs, output=outputs, value_info=others)
    if options.initializers:
        graph = replace(graph, initializer=tuple(_replaced(tensor, options) for tensor in graph.initializer))
    return graph


def _sized(info: ValueInfo, options: SessionOptions) -> ValueInfo:
    if info.type.kind != "tensor" or not info.type.shape:
        return info
    meant = info.type.denotations or ("",) * len(info.type.shape)
    shape = tuple(
        size if isinstance(size, int) else options.size_names.get(size or "", options.denotations.get(meaning, size))
        for size, meaning in zip(info.type.shape, meant, strict=True)
    )
    return replace(info, type=replace(info.type, shape=shape))


def _replaced(tensor: Tensor, options: SessionOptions) -> Tensor:
    if (value := options.initializers.get(tensor.name)) is None:
        return tensor
    array, dtype = value.numpy(), dtype_of(tensor.data_type)
    if array.dtype != dtype or array.shape != tensor.dims:
        rule = f"initializer '{printable(tensor.name)}' must be of {dtype.name} and shape {tensor.dims}"
        raise refuse("SessionOptions", tensor.name, rule, f"{array.dtype.name} of {array.shape}")
    return tensor_of(array, tensor.name)


def _write(source: Source, path: str) -> None:
    """Write the model with its sizes bound and its functions resolved: ONNX has no form for what it is compiled to."""
    try:
        Path(path).write_bytes(model_message(source.model).SerializeToString())
    except (OSError, ValueError) as error:
        rule = f"optimized_model_filepath could not be written ({show(error)})"
        raise refuse("SessionOptions", "optimized_model_filepath", rule) from error


# Profiles: what was loaded and run, and for how long, in the form of Chrome's traces


_MOST = 1_000_000
"""Events that are kept, as in ONNX Runtime."""


class Timeline:
    """Events since a session was made, a run's passes among them; `end` writes them. Runs take turns meanwhile."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._events: list[dict[str, Any]] = []
        self._lock = make_lock()
        self._recorders: dict[str, Recorder] = {}
        """By the memory that passes work in."""
        self.start = time.monotonic_ns()

    @contextlib.contextmanager
    def event(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        begun = time.monotonic_ns()
        try:
            yield
        finally:
            self._add("Session", name, begun, time.monotonic_ns() - begun)

    @contextlib.contextmanager
    def run(self, memory: str) -> Iterator[None]:
        """Time a run, and each of its passes, by the nodes that it is of."""
        import_alone("anydml.runtime.profiler_hook")
        from anydml.runtime.profiler_hook import Recorder, watching  # which nothing needs that only runs

        with self._lock:
            recorder = self._recorders.setdefault(memory, Recorder(memory))
            with self.event("model_run"), watching(recorder):
                begun = time.monotonic_ns()
                with recorder.run():
                    yield
            for span in recorder.spans:
                nodes = ", ".join(recorder.passes[span.number].nodes)
                self._add("Node", f"{nodes}_kernel_time", begun + int(span.start * 1e9), int(span.seconds * 1e9))

    def _add(self, kind: str, name: str, begun: int, taken: int) -> None:
        if len(self._events) < _MOST:
            thread = {"pid": os.getpid(), "tid": threading.get_native_id()}
            times = {"ts": (begun - self.start) // 1000, "dur": taken // 1000}
            self._events.append({"cat": kind, **thread, **times, "ph": "X", "name": name, "args": {}})

    def end(self) -> str:
        """Write the events to a file, whose name is the prefix and the time; gives the name."""
        now = datetime.now().astimezone()
        path = Path(f"{self._prefix}_{now:%Y-%m-%d_%H-%M-%S}_{now.microsecond // 1000:03}.json")
        try:
            path.write_text(json.dumps(self._events, indent=1))
        except (OSError, ValueError) as error:
            rule = f"profile_file_prefix could not be written to ({show(error)})"
            raise refuse("end_profiling", "profile_file_prefix", rule) from error
        return str(path)


# The session


_SWITCHES = ("enable_fallback", "read_config_from_model", "disabled_optimizers")


class InferenceSession:
    """A model, loaded to be run as ONNX Runtime runs it: `InferenceSession(path).run(None, {"x": array})`.

    DmlExecutionProvider, which is taken where none is named, is the GPU where there is one and the CPU else; `device`
    and `get_provider_options()` say which. CUDAExecutionProvider is the GPU, CPUExecutionProvider the CPU.
    """

    device: Device
    """The device of the model."""
    _model: Model

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if odd := [name for name in kwargs if name not in _SWITCHES]:
            raise refuse_type("InferenceSession", odd[0], f"one of {', '.join(_SWITCHES)}", kwargs[odd[0]])
        self._may_fall_back = bool(int(kwargs.get("enable_fallback", 1)))
        self._options: SessionOptions = read_options(sess_options, SessionOptions, "sess_options")
        self._model_path = os.fspath(path_or_bytes) if isinstance(path_or_bytes, (str, os.PathLike)) else None
        self._threads = self._options.intra_op_num_threads
        self._timeline = Timeline(self._options.profile_file_prefix) if self._options.enable_profiling else None
        self._is_bare = self._timeline is None and not self._threads
        """Whether a run of the model is all that there is to a run."""
        with told(), self._event("model_loading"):
            self._source = prepare(path_or_bytes, self._options)
        self._output_names = [info.name for info in self._source.model.graph.output]
        if providers is None and self._options.has_providers():
            providers = list(self._options.providers)
        self._load(providers, provider_options, may_fall_back=self._may_fall_back)

    def _load(self, providers: Any, options: Any, *, may_fall_back: bool) -> None:
        with told(), self._event("session_initialization"), self._with_threads():
            chosen = read_providers(providers, options, may_fall_back=may_fall_back)
            device, self._providers = find_device(chosen, may_fall_back=may_fall_back)
            if device is not getattr(self, "device", None):
                self._model, self.device = self._compile(self._source, device), device

    def _compile(self, source: Source, device: Device) -> Model:
        is_strict = self._options.configuration.get("session.disable_cpu_ep_fallback") == "1"
        is_plain = self._options.graph_optimization_level is GraphOptimizationLevel.ORT_DISABLE_ALL
        return load(source, device=device, strict=is_strict, disable_passes=graph_passes() if is_plain else ())

    # What it is

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run must be given."""
        return [arg for arg, is_own in self._inputs() if not is_own]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a value of the model's own, and may be given another."""
        return [arg for arg, is_own in self._inputs() if is_own]

    def _inputs(self) -> Iterator[tuple[NodeArg, bool]]:
        own = self._source.model.graph.constants
        for info in self._source.model.graph.input:
            yield describe_value(info, self._model.inputs), info.name in own

    def get_outputs(self) -> list[NodeArg]:
        """The outputs; sizes that the model does not declare, as far as its nodes show them."""
        return list(self._outputs)

    @cached_property
    def _outputs(self) -> list[NodeArg]:
        with told():
            return [describe_value(info, self._model.outputs) for info in self._source.model.graph.output]

    def get_modelmeta(self) -> ModelMetadata:
        """The model's words on itself."""
        return describe_model(self._source.model)

    def get_session_options(self) -> SessionOptions:
        """The options that it was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """The execution providers, the one that runs the model first."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Their options by name; `device` is what the first one runs on."""
        return {name: dict(own) for name, own in self._providers.items()}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Load the model anew for other execution providers, which must be there."""
        self._load(providers, provider_options, may_fall_back=False)

    def enable_fallback(self) -> None:
        """Let a provider whose device is not there give way to the CPU."""
        self._may_fall_back = True

    def disable_fallback(self) -> None:
        """Make a provider whose device is not there an error."""
        self._may_fall_back = False

    # Runs

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Run on arrays by the names of the inputs; gives the outputs asked for, or all, as NumPy arrays."""
        if run_options is None and type(input_feed) is dict and (output_names is None or type(output_names) is list):
            try:
                found = self._model.run_again(input_feed) if self._is_bare else None
                if found is None and self._is_plain(input_feed):
                    found = self._run_plainly(input_feed)
                if found is not None:
                    return [found[name] for name in output_names] if output_names else list(found.values())
            except (BindingError, KeyError, TypeError):
                pass  # told by the closer look
            except DmlError as error:
                raise renamed(error) from error.__cause__
        names = self.read_names(output_names)
        results = self._compute(self._read_feed(input_feed), {}, run_options)
        return [on_host(results[name]) for name in names]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue], run_options: Any = None
    ) -> list[OrtValue]:
        """The same with OrtValues, which stay on their device."""
        names, feed = self.read_names(output_names), self._read_feed(input_dict_ort_values)
        for name, value in input_dict_ort_values.items():
            if not isinstance(value, OrtValue):
                raise refuse_type("InferenceSession", str(name), "an OrtValue", value, "run() takes arrays")
        results = self._compute(feed, {}, run_options)
        return [OrtValue(results[name]) for name in names]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """Run in another thread, which then calls `callback(results, user_data, error)`, error being its message."""

        def work() -> None:
            try:
                results, message = self.run(output_names, input_feed, run_options), ""
            except DmlError as error:
                results, message = [], str(error)
            callback(results, user_data, message)

        threading.Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:
        """An object to bind arrays and memory to, for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run on what is bound, into what is bound."""
        if run_options is None and (launch := iobinding.launch(self._model)) is not None and self._is_free():
            try:
                launch()
                return
            except OutsideError:
                pass  # which another program computes
            except DmlError as error:
                raise renamed(error) from error.__cause__
        if run_options is None and self._timeline is None:
            try:
                with contextlib.nullcontext() if self._is_free() else OwnThreads(self._threads):
                    if iobinding.run_step(self._model):
                        return
            except OutsideError:
                pass  # which another program computes
            except DmlError as error:
                raise renamed(error) from error.__cause__
        out = iobinding.written()
        if run_options is None and not out and self._is_plain(iobinding.inputs):
            try:  # `with told()` would take 2 us
                results = self._run_plainly(iobinding.inputs)
            except DmlError as error:
                raise renamed(error) from error.__cause__
            iobinding.take(results)
        else:
            iobinding.take(self._compute(iobinding.inputs, out, run_options))
        iobinding.prepare(self._model)

    def _compute(self, inputs: dict[str, Any], out: dict[str, Any], run_options: Any) -> dict[str, Any]:
        options: RunOptions = read_options(run_options, RunOptions, "run_options")
        timed = contextlib.nullcontext() if self._timeline is None else self._timeline.run(self.device.engine.memory)
        with told(), timed, self._with_threads():
            self._check_terminated(options)
            results = self._model.run_bound(inputs, out) if out else self._model.run(inputs)
            self._check_terminated(options)
        return results

    def _check_terminated(self, options: RunOptions) -> None:
        if options.terminate:
            raise Fail(
                self._source.name, Fault(field="terminate", rule="the run was ended: RunOptions.terminate is set")
            )

    def _is_plain(self, feed: Any) -> bool:
        """Whether a run is nothing but a run of the model, on arrays: not timed either."""
        if type(feed) is not dict or self._timeline is not None:
            return False
        for array in feed.values():  # noqa: SIM110 - all() takes half a microsecond more
            if type(array) is not np.ndarray:
                return False
        return True

    def _is_free(self) -> bool:
        """Whether nothing is to be set before a run."""
        return self._timeline is None and (not self._threads or self._threads == get_num_threads())

    def _run_plainly(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        if self._is_bare or self._is_free():
            return self._model.run(feed)
        with OwnThreads(self._threads):
            return self._model.run(feed)

    # What a run is given

    def read_input(self, name: str, value: Any) -> Any:
        """A value for an input, as the model takes it."""
        if not isinstance(name, str) or name not in self._model.inputs:
            way_out = f"the model takes {', '.join(repr(printable(own)) for own in self._model.inputs) or 'none'}"
            raise refuse(self._source.name, str(name), f"there is no input {show(name)}", way_out=way_out)
        return self._read_feed({name: value})[name]

    def read_names(self, names: Any) -> list[str]:
        """The names of outputs; of all of them for None."""
        if names is None or (isinstance(names, (list, tuple)) and not names):
            return self._output_names
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise refuse_type(self._source.name, "output_names", "a list of names, or None for all", names)
        for name in names:
            if name not in self._output_names:
                way_out = f"the model has {', '.join(repr(printable(own)) for own in self._output_names)}"
                raise refuse(self._source.name, name, f"there is no output {show(name)}", way_out=way_out)
        return list(names)

    def _read_feed(self, feed: Any) -> dict[str, Any]:
        if not hasattr(feed, "items"):
            raise refuse_type(self._source.name, "input_feed", "a dict of names to arrays", feed)
        types, known, subject = self._types, self._model.inputs, self._source.name
        return {name: read_value(name, value, types.get(name), known, subject) for name, value in feed.items()}

    @cached_property
    def _types(self) -> dict[str, ValueType]:
        return {info.name: info.type for info in self._source.model.graph.input}

    # Around a run

    def _event(self, name: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._timeline is None else self._timeline.event(name)

    def _with_threads(self) -> contextlib.AbstractContextManager[None]:
        return OwnThreads(self._threads) if self._threads else contextlib.nullcontext()

    def end_profiling(self) -> str:
        """Write the profile where enable_profiling is set; gives the file's name, and nothing where it is not."""
        return "" if self._timeline is None else self._timeline.end()

    def get_profiling_start_time_ns(self) -> int:
        """When the profile began, on the clock of time.monotonic_ns."""
        return 0 if self._timeline is None else self._timeline.start

    def __getstate__(self) -> NoReturn:
        """Refused; a subclass may have one that keeps the path, as ONNX Runtime's documents advise."""
        rule = "a session can be neither copied nor pickled"
        way_out = "share it, for threads may run it at once, or make another of the model's path or bytes"
        raise TypeError(f"{self._source.name}: {rule}; {way_out}")

    def __repr__(self) -> str:
        return f"InferenceSession({self._source.name!r}, providers={self.get_providers()}, device={self.device.name!r})"
