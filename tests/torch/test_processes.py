"""The device and compiled models under threads, forks and in other processes: nothing hangs or is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
from torch.utils import backend_registration  # noqa: E402 - it needs PyTorch

if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this PyTorch lets no Python be a backend", allow_module_level=True)
if sys.platform == "win32":
    pytest.skip("Windows has no fork and no such signals", allow_module_level=True)

HEAD = """
import multiprocessing, os, signal, sys, threading
import torch, torch.nn as nn
import torch_directml
from anydml.torch.backend import compile_graph
dml = torch_directml.device()
def work(k=0):
    x = torch.full((4 + k, 4), 2.0, device=dml)
    return (x @ x.t() + 1).relu().sum().item() == 17 * (4 + k) ** 2
"""


def start(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - a Python of ours
        [sys.executable, *args], capture_output=True, text=True, timeout=280, check=False
    )


def run(code: str) -> str:
    """What a process of its own prints; one that hangs is ended, which is an error."""
    found = start("-c", HEAD + code)
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout.strip()


def test_imports_leave_the_compiler_of_pytorch_alone() -> None:
    code = """
import anydml.torch
torch_directml.device()
x = torch.ones(2, device=dml).cpu()
late = "torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "sympy", "wgpu"
print([name for name in late if name in sys.modules])
"""
    assert run(code) == "[]"


@pytest.mark.long
def test_a_fork_after_use() -> None:
    code = """
compiled = torch.compile(lambda x: (x * 2 + 1).sum(), backend=compile_graph)
found = [work(), compiled(torch.ones(5)).item()]
child = os.fork()
if not child:
    found = [compiled(one).item() for one in (torch.ones(5), torch.ones(7), torch.ones(7, device=dml))]
    fine = work() and work(1) and found == [15, 21, 21]
    os._exit(0 if fine else 1)
_, status = os.waitpid(child, 0)
print(found, status, work(2))
"""
    assert run(code) == "[True, 15.0] 0 True"


@pytest.mark.long
def test_forks_while_other_threads_compile() -> None:
    code = """
stop, fine = threading.Event(), []
def busy(first):
    k = first
    while not stop.is_set():
        fine.append(work(k))
        k += 2
threads = [threading.Thread(target=busy, args=(k,)) for k in (1, 2)]
work()
for one in threads: one.start()
statuses = []
for k in range(3):
    child = os.fork()
    if not child:
        os._exit(0 if work() and work(100 + k) else 1)
    statuses.append(os.waitpid(child, 0)[1])
stop.set()
for one in threads: one.join()
print(statuses, all(fine), len(fine) > 1)
"""
    assert run(code) == "[0, 0, 0] True True"


@pytest.mark.long
def test_data_loaders_whose_workers_use_the_device() -> None:
    code = """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 6
    def __getitem__(self, k): return (torch.full((3,), float(k), device=dml) * 2 + 1).cpu()
work()
found = [x.to(dml).sum().item() for x in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2)]
print(found)
"""
    assert run(code) == "[12.0, 36.0, 60.0]"


@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_tensors_of_the_device_go_to_other_processes(method: str, tmp_path: object) -> None:
    path = f"{tmp_path}/main.py"
    code = f"""
def double(x):
    return (x.to(dml) * 2).cpu(), os.getpid()
if __name__ == "__main__":
    work()
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        found, process = pool.apply(double, (torch.arange(3.0),))
    print(found.tolist(), process != os.getpid())
"""
    with open(path, "w") as file:  # noqa: PTH123 - what spawns imports a file anew
        file.write(HEAD + code)
    found = start(path)
    assert (found.stdout.strip(), found.returncode) == ("[0.0, 2.0, 4.0] True", 0), found.stderr[-3000:]


@pytest.mark.long
def test_threads_compile_and_train_together() -> None:
    code = """
torch.manual_seed(1)
models = [nn.Sequential(nn.Linear(3, 4 + k), nn.Tanh(), nn.Linear(4 + k, 1)) for k in range(3)]
x, errors, found = torch.randn(8, 3), [], {}
def train(k, model, device, run):
    given = x.to(device)
    for _ in range(3):
        loss = run(given).square().mean()
        loss.backward()
        with torch.no_grad():
            for one in model.parameters():
                one -= 0.1 * one.grad
                one.grad = None
    found[k] = loss.item()
import copy
wanted = {}
for k, model in enumerate(models):
    other = copy.deepcopy(model); train("w", other, "cpu", other); wanted[k] = found.pop("w")
def start(k):
    try:
        model = models[k].to(dml if k % 2 else "cpu")
        train(k, model, dml if k % 2 else "cpu", torch.compile(model, backend=compile_graph, dynamic=False))
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=start, args=(k,)) for k in range(3)]
for one in threads: one.start()
for one in threads: one.join()
print(errors, all(abs(found[k] - wanted[k]) < 1e-5 for k in wanted))
"""
    assert run(code) == "[] True"
