"""Work that would take hours is cancelled by an interrupt, and what it gives is as that of the team of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from agreement import bits
from anydml.engines.cpu.launch import call
from anydml.engines.cpu.launch import loops as repeat
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.threads.team import Cancellable
from threading_helpers import LINUX, run_python

if TYPE_CHECKING:
    from collections.abc import Callable

# Some of them are a single unit of a kernel's work.
HOURS = {
    "samples of a region": "dml.roi_align1(np.ones((1, 1, 4, 4), 'f4'), np.array([[0, 0, 3, 3]], 'f4'),"
    " np.zeros(1, 'u4'), (2, 2), minimum_samples_per_output=2**20)",
    "a large window": "dml.average_pooling(np.ones((1, 1, 3000, 3000), 'f4'), window_size=(3000, 3000),"
    " start_padding=(2999, 2999), end_padding=(2999, 2999), include_padding=True)",
    "a long sum of products": "dml.gemm(ones(1, 1, 2**13, 2**18), ones(1, 1, 2**18, 2**13))",
    "a sum over neighbours": "dml.local_response_normalization(ones(1, 2**16, 64, 64), local_size=2**16 - 1)",
}


@LINUX
@pytest.mark.parametrize("work", [pytest.param(one, marks=[pytest.mark.long] * (k > 0)) for k, one in enumerate(HOURS)])
def test_an_interrupt_ends_work_of_hours(work: str) -> None:
    code = f"""
def ones(*shape): return np.broadcast_to(np.float32(1), shape)
dml.relu(np.ones(70_000, 'f4'))  # there is a team
times = 0
for seconds in (1, 3):  # the first may come while kernels are compiled
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        {HOURS[work]}
    except KeyboardInterrupt:
        times += 1
x = np.arange(512 * 512, dtype='f4').reshape(1, 1, 512, 512) % 7
right = np.array_equal(dml.gemm(x, x)[0, 0], x[0, 0] @ x[0, 0]) and np.array_equal(dml.negate(x), -x)
def others(): return len(os.listdir("/proc/self/task")) > dml.get_num_threads() + 1
for _ in range(400):  # a thread that compiles, and a timer's, end by themselves
    if not others(): break
    threading.Event().wait(0.05)
print("interrupted", times, right, not others())
"""
    result = run_python(code, timeout=90)
    assert result.stdout == "interrupted 2 True True\n", result.stderr


@LINUX
def test_a_loop_without_end_is_interrupted() -> None:
    pytest.importorskip("onnx", reason="the loop is ONNX's")
    code = """
import onnx.parser
import anydml.onnx
text = '''<ir_version: 8, opset_import: ["" : 17]> g (int64 m, float[3] x) => (float[3] y) {
    yes = Constant<value = bool {1}>()
    y = Loop(m, yes, x) <body = b (int64 k, bool c, float[3] v) => (bool d, float[3] w) {
        d = Identity(c)
        w = Add(v, x)
    }>
}'''
model = dml.onnx.load(onnx.parser.parse_model(text), max_steps=2**62)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    model.run({"m": np.array(2**60), "x": np.ones(3, "f4")})
except KeyboardInterrupt:
    print("interrupted")
"""
    result = run_python(code, timeout=90)
    assert result.stdout == "interrupted\n", result.stderr


@LINUX
def test_what_is_cancelled_writes_no_more_and_leaves_all_in_order() -> None:
    """Products take a block of memory each, of which there are as many as threads: none stays taken."""
    code = """
import random
from anydml.engines.cpu.launch import call
from anydml.engines.cpu.launch import loops as repeat
from anydml.engines.cpu.launch.program import KernelProgram
call.LONG = 1
dml.set_num_threads(3)
x = np.arange(700 * 700, dtype='f4').reshape(1, 1, 700, 700) % 5
out = np.empty_like(x)
desc = dml.Gemm.infer(a_tensor=dml.TensorDesc.of(x), b_tensor=dml.TensorDesc.of(x))
bound = dml.Device("cpu").compile(desc).bind(x, x, out=out)
bound.dispatch()
expected = out.copy()
threading.Timer(80, lambda: os._exit(3)).start()
signal.signal(signal.SIGALRM, signal.default_int_handler)
caught = wrong = 0
while caught < 40:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 8e-3))
        while True: bound.dispatch()
    except KeyboardInterrupt:
        out.fill(-1)
        time.sleep(0.0003)
        wrong += not (out == -1).all()
        caught += 1
bound.dispatch()
print(caught, wrong, np.array_equal(out, expected), len(os.listdir("/proc/self/task")) <= 4)
os._exit(0)
"""
    result = run_python(code, timeout=90)
    assert result.stdout == "40 0 True True\n", result


SAME: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "map": (lambda x: dml.sin(x), (1, 1, 371, 411)),
    "reduce": (lambda x: dml.reduce(x, "sum", [3]), (1, 1, 371, 411)),
    "one sum": (lambda x: dml.reduce(x, "log_sum_exp", [2, 3]), (1, 1, 371, 997)),
    "product": (lambda x: dml.gemm(x, x), (1, 1, 213, 213)),
    "convolution": (lambda x: dml.convolution(x, x[:, :, :7, :7]), (1, 3, 131, 97)),
    "transpose": (
        lambda x: dml.slice1(x.swapaxes(2, 3), (0, 0, 0, 0), (1, 1, 411, 371), (1, 1, 1, -1)),
        (1, 1, 371, 411),
    ),
    "scan": (lambda x: dml.cumulative_summation(x, 3), (1, 1, 3, 90_011)),
    "sort": (lambda x: dml.top_k(x, 3, 9)[0], (1, 1, 371, 411)),
}


@LINUX
@pytest.mark.parametrize("name", SAME)
def test_threads_of_its_own_give_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, shape = SAME[name]
    x = np.random.default_rng(5).standard_normal(shape, "f4")
    expected, runs, run = work(x), list[int](), Cancellable.run

    def watch(self: Cancellable) -> int | None:
        runs.append(1)
        return run(self)

    monkeypatch.setattr(call, "LONG", 1)
    monkeypatch.setattr(Cancellable, "run", watch)
    assert bits(work(np.pad(x, [(0, 0)] * 3 + [(0, 1)])[..., :-1])).tolist() == bits(expected).tolist()
    assert runs


@pytest.mark.parametrize("most", [1, 20_000])
def test_steps_over_time_are_taken_in_several_calls(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, r = (np.linspace(-1, 1, h * n, dtype="f4").reshape(1, -1, h, n) for h, n in ((1, 50 * 8), (48, 8), (48, 16)))
    x, expected, calls = x.reshape(1, 50, 1, 8), None, list[int]()

    def watch(program: KernelProgram, places: Any) -> Any:
        if program.kernel.name == "repeat":
            calls.append(program.record.words[repeat.REPEAT.word("times")])
        return bind(program, places)

    bind = KernelProgram.bind
    monkeypatch.setattr(KernelProgram, "bind", watch)
    monkeypatch.setenv("ANYDML_CHECK_BOUNDS", "0")  # a proof binds too
    for long in (2**40, most):
        monkeypatch.setattr(repeat, "LONG", long)
        calls.clear()
        found = dml.gru(x, w, r).sequence
        expected = found if expected is None else expected
        assert bits(found).tolist() == bits(expected).tolist()
        assert (sum(calls), len(calls) == 1) == (50, long == 2**40)
