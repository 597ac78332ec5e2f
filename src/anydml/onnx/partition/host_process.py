"""Nodes on the host in a process of their own, which may crash or hang: `ANYDML_HOST=process`.

A worker is another Python that runs `serve`. It gets models and arrays through a pipe and sends results back, as JSON
and bytes: nothing that it sends is code. One request is under way at a time; runs at the same time have workers of
their own. A worker ends when its pipe does, so with the process that started it, and one that crashes, or takes longer
than the time limit, is replaced by the next run.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import itertools
import json
import math
import os
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict, deque
from io import FileIO
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core import errors
from anydml.core.errors import DmlError, Fault, ModelError, UnsupportedError, printable, show
from anydml.core.late_imports import import_alone
from anydml.onnx.library import half_dtype, number_of_dtype
from anydml.onnx.partition.host_evaluator import Evaluator
from anydml.onnx.protobuf import model_message, parse_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.onnx.ir import Model

HOST, TIMEOUT = "ANYDML_HOST", "ANYDML_HOST_TIMEOUT"
_SECONDS = 60.0
"""That nodes may take, where nobody says otherwise."""
_START_SECONDS = 120.0
"""That a worker may take to import ONNX Runtime, which takes one where nobody else is busy."""
_GRACE = 10.0
"""Seconds after the limit when a worker ends by itself, should nobody be there to end it."""
_MOST_IDLE = 2
"""Workers that wait for the next run."""
_MOST_MODELS = 64
"""That a worker keeps, those used last."""
_MOST_TOLD = 2000
"""Bytes that a worker wrote last, of which an error has the last line."""
_SIZE = struct.Struct("<Q")
_START = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import serve; serve()"


def is_apart() -> bool:
    """Whether nodes on the host run in a process of their own."""
    given = os.environ.get(HOST, "")
    if given not in ("", "process"):
        fault = Fault(field=HOST, rule=f"{HOST} must be 'process', or not set", found=show(given))
        raise UnsupportedError("anydml.onnx", fault)
    return bool(given)


def time_limit() -> float:
    """The seconds that a run of neighbouring nodes may take there."""
    given = os.environ.get(TIMEOUT, "")
    try:
        found = float(given) if given else _SECONDS
    except ValueError:
        found = math.nan
    if not 0 < found < threading.TIMEOUT_MAX:
        fault = Fault(field=TIMEOUT, rule=f"{TIMEOUT} must be a number of seconds above 0", found=show(given))
        raise UnsupportedError("anydml.onnx", fault)
    return found


class RemoteEvaluator:
    """An `Evaluator` that a worker has."""

    _numbers = itertools.count()

    def __init__(self, model: Model, label: str) -> None:
        self._number, self._label = next(self._numbers), label
        self._model = np.frombuffer(model_message(model).SerializeToString(), np.uint8)
        self.by = self.why = ""

    def run(self, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs of inputs by name."""
        buffers: list[Any] = []
        try:
            given = [[name, _encoded(value, buffers)] for name, value in inputs.items()]
        except (TypeError, ValueError, KeyError) as error:
            rule = f"its inputs must be tensors, texts or sequences ({show(error)})"
            raise ModelError(self._label, Fault(field="", rule=rule)) from error
        seconds = time_limit()
        request = {"number": self._number, "label": self._label, "inputs": given, "seconds": seconds}
        worker = _take()
        try:
            reply = None
            if self._number in worker.models:
                reply = worker.ask(request, buffers, seconds)
            if reply is None or "missing" in reply:
                worker.models.add(self._number)
                size = {"model": self._model.size}
                reply = worker.ask({**size, **request}, [self._model, *buffers], seconds)
        except _Ended as ended:
            worker.end()
            raise self._of(ended) from None
        except BaseException:  # Ctrl-C, for one: what it answers later is for nobody
            worker.end()
            raise
        _give_back(worker)
        return self._results(reply)

    def _results(self, reply: dict[str, Any]) -> tuple[Any, ...]:
        if "memory" in reply:
            raise MemoryError(reply["memory"])
        if "error" in reply:
            kind = getattr(errors, reply["error"], DmlError)
            raise kind(reply["subject"], [Fault(**fault) for fault in reply["faults"]])
        self.by, self.why = f"{reply['by']}, in a process of its own", reply["why"]
        return tuple(reply["results"])

    def _of(self, ended: _Ended) -> DmlError:
        if ended.is_late:
            rule = f"it must be done within {time_limit():g} s on the host, in a process of its own"
            return ModelError(self._label, Fault(field="", rule=rule, way_out=f"{TIMEOUT} gives it more seconds"))
        rule = f"the process that runs it on the host ended ({ended.reason})"
        way_out = "ONNX Runtime or onnx crashes on it, or memory ran out; the next run starts another process"
        return ModelError(self._label, Fault(field="", rule=rule, way_out=way_out))


class _Ended(Exception):  # noqa: N818 - no error of a user's: `RemoteEvaluator` says what it means
    """The end of a worker amid a request."""

    def __init__(self, reason: str, *, is_late: bool) -> None:
        super().__init__(reason)
        self.reason, self.is_late = reason, is_late


class _Worker:
    """A process that runs models for one request at a time."""

    def __init__(self) -> None:
        import_alone("multiprocessing.spawn")
        from multiprocessing.spawn import get_executable  # which a program that holds Python may have set

        if not (executable := get_executable()):
            fault = Fault(field=HOST, rule=f"{HOST}=process needs Python's executable, and sys.executable has none")
            raise UnsupportedError("anydml.onnx", fault)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        is_windows = sys.platform == "win32"
        self._process = subprocess.Popen(  # noqa: S603 - Python itself
            [executable, "-P", "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            bufsize=0,
            env={**os.environ, HOST: ""},
            # Ctrl-C is for us, who end the worker then.
            process_group=None if is_windows else 0,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018 - as asked for
        self._to: Any = self._process.stdin
        self._from: Any = self._process.stdout
        self.models: set[int] = set()
        """The numbers of those that it was given."""
        _workers.add(self)
        try:
            self.ask(None, (), _START_SECONDS)
        except _Ended as ended:
            self.end()
            rule = f"the process for nodes on the host could not be started ({ended.reason})"
            raise UnsupportedError("anydml.onnx", Fault(field=HOST, rule=rule)) from None
        except BaseException:
            self.end()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether it waits for a request."""
        return self._process.poll() is None

    def ask(self, request: dict[str, Any] | None, buffers: Any, seconds: float) -> dict[str, Any]:
        """The reply to a request, or without one to none: that it is there."""
        is_late = threading.Event()

        def expire() -> None:
            is_late.set()
            self._process.kill()  # which ends both pipes, and so whatever waits for them

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            if request is not None:
                _write(self._to, request, buffers)
            reply = _read(self._from)
        except OSError:
            reply = None
        finally:
            timer.cancel()
        if reply is None:
            raise _Ended(self._reason(), is_late=is_late.is_set())
        return reply

    def _reason(self) -> str:
        """How it ended, and the last that it wrote."""
        self._process.kill()
        code = self._process.wait()
        try:
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        except ValueError:
            how = f"exit status {code}"
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(self._said.tell() - _MOST_TOLD, 0))
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return how + (f": {show(printable(lines[-1]), 200)}" if lines else "")

    def end(self) -> None:
        """End it, and wait until it is gone."""
        _workers.discard(self)
        self._process.kill()
        self._process.wait()
        self._close()

    def leave(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._process.returncode = 0  # nothing to wait for: it is no child of ours
        self._close()

    def _close(self) -> None:
        for file in (self._to, self._from, self._said):
            with contextlib.suppress(OSError):
                file.close()


_workers: set[_Worker] = set()
_idle: deque[_Worker] = deque()


def _take() -> _Worker:
    """A worker that nobody else has. There is no lock: a signal's handler may run a model amid another's run."""
    while True:
        try:
            worker = _idle.pop()
        except IndexError:
            return _Worker()
        if worker.is_alive:
            return worker
        worker.end()


def _give_back(worker: _Worker) -> None:
    if len(_idle) < _MOST_IDLE:
        _idle.append(worker)
    else:
        worker.end()


@atexit.register
def _end_all() -> None:
    for worker in list(_workers):
        worker.end()


def _leave_all() -> None:
    """Of a forked child: the workers are its parent's, and must see the end of that one's pipes."""
    for worker in list(_workers):
        worker.leave()
    _workers.clear()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)


# Messages: the size of a text of JSON, the text, and the bytes of the arrays that it describes, in order.


def _encoded(value: Any, buffers: list[Any]) -> Any:
    """A value as JSON, its bytes among the buffers."""
    if value is None or isinstance(value, (bool, int, float, str)):  # a number or a text is an entry of a map
        return value
    if isinstance(value, list):
        return {"several": [_encoded(each, buffers) for each in value]}
    if isinstance(value, dict):
        return {"map": [[_encoded(each, buffers) for each in entry] for entry in value.items()]}
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        texts = [str(each) if isinstance(each, str) else {"bytes": bytes(each).hex()} for each in array.reshape(-1)]
        return {"texts": texts, "shape": array.shape}
    buffers.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return {"type": number_of_dtype(array.dtype), "shape": array.shape}


def _decoded(told: Any, fill: Callable[[Any], Any]) -> Any:
    """The value of which JSON tells; `fill` reads the elements of the next array."""
    if not isinstance(told, dict):
        return told
    if "several" in told:
        return [_decoded(each, fill) for each in told["several"]]
    if "map" in told:
        return {_decoded(key, fill): _decoded(each, fill) for key, each in told["map"]}
    if "texts" in told:
        texts = [each if isinstance(each, str) else bytes.fromhex(each["bytes"]) for each in told["texts"]]
        found = np.empty(len(texts), object)
        found[:] = texts
        return found.reshape(told["shape"])
    return fill(np.empty(told["shape"], half_dtype(told["type"])))


def _write(file: FileIO, message: Mapping[str, Any], buffers: Any) -> None:
    text = json.dumps(message).encode()
    for data in (_SIZE.pack(len(text)), text, *buffers):
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]


def _read(file: FileIO) -> dict[str, Any] | None:
    """The next message, with arrays in the place of what tells of them; None where there is no more."""

    def fill(array: Any) -> Any:
        left = memoryview(array.reshape(-1).view(np.uint8))
        while left:
            if not (count := file.readinto(left)):
                raise EOFError
            left = left[count:]
        return array

    try:
        (size,) = _SIZE.unpack(fill(np.empty(_SIZE.size, np.uint8)).tobytes())
        message: dict[str, Any] = json.loads(fill(np.empty(size, np.uint8)).tobytes())
        if "model" in message:
            message["model"] = fill(np.empty(message["model"], np.uint8))
        if "inputs" in message:
            message["inputs"] = {name: _decoded(told, fill) for name, told in message["inputs"]}
        if "results" in message:
            message["results"] = [_decoded(told, fill) for told in message["results"]]
    except EOFError:
        return None
    return message


# The worker's side


def serve() -> None:
    """Answer requests until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    given, made = FileIO(os.dup(0), "rb"), FileIO(os.dup(1), "wb")
    os.dup2(2, 1)  # what others print is not for the pipe
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        """Wait for requests, and end with whoever sends them, be it amid one."""
        while True:
            try:
                request = _read(given)
            except OSError:
                request = None
            if request is None:
                os._exit(0)
            requests.put(request)

    threading.Thread(target=listen, daemon=True).start()
    evaluators: OrderedDict[int, Evaluator] = OrderedDict()
    _write(made, {}, ())
    while True:
        request = requests.get()
        faulthandler.dump_traceback_later(request["seconds"] + _GRACE, exit=True)  # needs no lock of Python's
        buffers: list[Any] = []
        reply = _answer(request, evaluators, buffers)
        faulthandler.cancel_dump_traceback_later()
        _write(made, reply, buffers)


def _answer(request: dict[str, Any], evaluators: OrderedDict[int, Evaluator], buffers: list[Any]) -> dict[str, Any]:
    number, inputs = request["number"], request["inputs"]
    try:
        if "model" in request:
            model = parse_model(request["model"].tobytes(), request["label"])
            evaluators[number] = Evaluator(model, inputs, request["label"])
            if len(evaluators) > _MOST_MODELS:
                evaluators.popitem(last=False)
        elif number not in evaluators:
            return {"missing": True}
        evaluators.move_to_end(number)
        evaluator = evaluators[number]
        results = [_encoded(each, buffers) for each in evaluator.run(inputs)]
    except DmlError as error:
        faults = [{"field": f.field, "rule": f.rule, "found": f.found, "way_out": f.way_out} for f in error.faults]
        return {"error": type(error).__name__, "subject": error.subject, "faults": faults}
    except MemoryError as error:
        return {"memory": str(error)}
    return {"results": results, "by": evaluator.by, "why": evaluator.why}
