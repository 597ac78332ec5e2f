"""Signals that interrupt a dispatch, and forks and the end of the process during one."""

from __future__ import annotations

import pytest

from threading_helpers import KINDS, LINUX, run_python

pytestmark = pytest.mark.sampled(3)


@LINUX
def test_a_dispatch_on_pythons_threads_ends_before_whatever_a_handler_raises() -> None:
    code = """
from anydml.engines.cpu.threads import pool
class Late(Exception): pass
def handle(*_):
    rung.set()
    raise Late
signal.signal(signal.SIGALRM, handle)
dml.set_num_threads(2)
done, come, rung = [], threading.Event(), threading.Event()
def work(turn):
    if threading.current_thread() is threading.main_thread():
        come.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
    else:
        come.set()
        rung.wait()
        time.sleep(0.3)
        done.append(turn)
try:
    pool.run(work, 2)
except Late:
    print(len(done))
"""
    result = run_python(code)
    assert result.stdout == "1\n", result.stderr


@LINUX
def test_a_handler_dispatches_while_threads_are_started() -> None:
    code = """
from anydml.engines.cpu.threads import pool
import faulthandler
faulthandler.dump_traceback_later(30, exit=True)
start = pool.start_thread
def start_and_be_interrupted(*given):
    started = start(*given)
    os.kill(os.getpid(), signal.SIGUSR1)
    return started
said = []
signal.signal(signal.SIGUSR1, lambda *_: pool.run(said.append, 3))
pool.start_thread = start_and_be_interrupted
dml.set_num_threads(3)
pool.run(said.append, 3)
print(len(said))
"""
    result = run_python(code)
    assert result.stdout == "9\n", result.stderr


@pytest.mark.long
@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_a_dispatch_ends_before_the_exception_that_interrupts_it(kind: str) -> None:
    code = """
import random
dml.set_num_threads(4)
x = np.random.rand(2000, 2000).astype("f4")
out = np.empty_like(x)
row, long = x.reshape(1, -1), out.reshape(1, -1)
device = dml.Device("cpu")
def slicing(a):
    return dml.Slice1.infer(input_tensor=dml.TensorDesc.of(a), input_window_offsets=(0, 0),
                            input_window_sizes=a.shape, input_window_strides=(1, -1))
summing = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc.of(row), axis=1)
bounds = [device.compile(slicing(x)).bind(x, out=out), device.compile(summing).bind(row, out=long)]
for bound in bounds: bound.dispatch()
threading.Timer(280, lambda: os._exit(3)).start()
signal.signal(signal.SIGALRM, signal.default_int_handler)
caught = wrong = 0
while caught < 300:
    bound = random.choice(bounds)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 4e-3))
        while True: bound.dispatch()
    except KeyboardInterrupt:
        out.fill(-1)
        for _ in range(3):
            time.sleep(0.0003)
            wrong += not (out == -1).all()
        caught += 1
print(caught, wrong)
os._exit(0)
"""
    result = run_python(code, ANYDML_TEAM=kind)
    assert result.stdout.split() == ["300", "0"], result


@LINUX
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_has_a_team_of_its_own(kind: str) -> None:
    code = """
dml.set_num_threads(3)
x = np.random.rand(500, 4000).astype("f4")
out = np.empty_like(x)
desc = dml.Slice1.infer(input_tensor=dml.TensorDesc.of(x), input_window_offsets=(0, 0), input_window_sizes=x.shape,
                        input_window_strides=(1, -1))
bound = dml.Device("cpu").compile(desc).bind(x, out=out)
bound.dispatch()
stop = threading.Event()
def work():
    y = np.empty_like(x)
    mine = dml.Device("cpu").compile(desc).bind(x, out=y)
    while not stop.is_set():
        mine.dispatch()
others = [threading.Thread(target=work) for _ in range(2)]
for other in others: other.start()
for _ in range(30):
    child = os.fork()
    if not child:
        signal.alarm(20)
        out.fill(0)
        bound.dispatch()
        ok = np.array_equal(out, x[:, ::-1])
        tasks = len(os.listdir("/proc/self/task"))
        os._exit(0 if ok and tasks == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for other in others: other.join()
print("done")
"""
    result = run_python(code, ANYDML_TEAM=kind)
    assert result.stdout == "done\n", result.stderr


@pytest.mark.long
@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_the_process_ends_while_a_thread_dispatches(kind: str) -> None:
    code = """
import atexit
dml.set_num_threads(4)
x = np.random.rand(2000, 2000).astype("f4")
def work():
    while True:
        dml.slice1(x, (0, 0), x.shape, (1, -1))
for _ in range(3): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
def last():
    assert np.array_equal(dml.slice1(x, (0, 0), x.shape, (1, -1)), x[:, ::-1])
    print("last")
atexit.register(last)
class Late:
    def __del__(self):
        dml.slice1(x, (0, 0), x.shape, (1, -1))
keep = Late()
"""
    for _ in range(5):
        result = run_python(code, ANYDML_TEAM=kind)
        assert (result.returncode, result.stdout) == (0, "last\n"), result


@LINUX
def test_threads_that_dispatch_first_at_once_have_one_team() -> None:
    code = """
from anydml.engines.cpu.threads import team
both, found, get_kernel = threading.Barrier(2), [], team.get_kernel
def get_together(name, write):
    kernel = get_kernel(name, write)
    if threading.current_thread() in threads:
        threads.remove(threading.current_thread())
        both.wait(20)
    return kernel
def ask():
    found.append(team.get_team())
get_kernel("team", team.make_team)
team.get_kernel = get_together
threads = [threading.Thread(target=ask) for _ in range(2)]
every = list(threads)
for one in every: one.start()
for one in every: one.join()
print(len({id(one) for one in found}), len(found))
"""
    result = run_python(code)
    assert result.stdout == "1 2\n", result.stderr


@LINUX
def test_a_thread_is_within_a_kernel_when_the_process_ends() -> None:
    code = """
dml.set_num_threads(1)
x = np.ones((2048, 2048), "f4")
bound = dml.Device("cpu").compile(dml.Gemm.infer(a_tensor=dml.TensorDesc.of(x), b_tensor=dml.TensorDesc.of(x)))
bound = bound.bind(x, x, out=np.empty_like(x))
def work():
    while True:
        bound.dispatch()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
    for _ in range(3):
        result = run_python(code)
        assert result.returncode == 0, result


@LINUX
def test_the_team_sleeps_when_there_is_nothing_to_do() -> None:
    code = """
dml.set_num_threads(8)
x = np.random.rand(2000, 2000).astype("f4")
dml.slice1(x, (0, 0), x.shape, (1, -1))
def spent():
    before = time.process_time()
    time.sleep(0.3)
    return time.process_time() - before
print(len(os.listdir("/proc/self/task")) >= 8, any(spent() < 0.05 for _ in range(20)))
"""  # the CPU time of all threads: on a busy machine they come to rest late
    assert run_python(code).stdout == "True True\n"
