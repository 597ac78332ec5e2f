"""`import torch_directml`: a device of PyTorch, as its users know it."""

from __future__ import annotations

import copy
import io
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
import torch.nn as nn  # noqa: E402 - it needs PyTorch
import torch.nn.functional as F  # noqa: E402, N812 - likewise, by the name that everybody has for it
from torch.utils import backend_registration  # noqa: E402 - likewise

if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this PyTorch lets no Python be a backend", allow_module_level=True)

import anydml  # noqa: E402 - likewise
import torch_directml  # noqa: E402 - likewise
from anydml.torch import backend, eager  # noqa: E402 - likewise
from torch_models import GPT, ResNet18  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own
dml = torch_directml.device()


def test_devices() -> None:
    assert torch_directml.is_available()
    assert torch_directml.device_count() >= 1
    assert dml == torch_directml.device(torch_directml.default_device()) == torch.device("privateuseone", 0)
    assert torch_directml.device_name(0)
    assert torch_directml.has_float64_support()
    assert torch_directml.gpu_memory() == []
    torch_directml.disable_tiled_resources(True)
    with pytest.raises(anydml.DescriptionError, match=r"torch_directml: device_id must be 0 \.\. \d+; got 99"):
        torch_directml.device(99)


def test_memory_is_the_hosts_and_views_share_it() -> None:
    x = torch.zeros(2, 3, device=dml)
    y = x.view(3, 2)[1:]
    y.add_(1)
    assert x.tolist() == [[0, 0, 1], [1, 1, 1]]
    assert x._version == 1  # autograd sees the write
    assert x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert repr(x) == "tensor([[0., 0., 1.],\n        [1., 1., 1.]], device='privateuseone:0')"


def test_numpy_has_pytorchs_error() -> None:
    with pytest.raises(TypeError, match=r"can't convert privateuseone:0 device type tensor to numpy. Use Tensor.cpu()"):
        torch.ones(2, device=dml).numpy()
    assert torch.ones(2, device=dml).cpu().numpy().tolist() == [1, 1]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "a mask": lambda x: x[x > 0],
    "a slice": lambda x: x[1:3, ::2],
    "indices": lambda x: x[:, [0, 2]],
    "numbers": lambda x: 1 / (x % 2 + 1) - x // 0.5 + x**2,
    "cat": lambda x: torch.cat([x, x.t().contiguous().view(4, 5)], 1),
    "where": lambda x: torch.where(x > 0, x, -x),
    "argmax": lambda x: x.argmax(1),
    "sort": lambda x: x.sort(1)[0],
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "float64": lambda x: x.double().sum(),
    "float16": lambda x: x.half() * 2,
    "complex": lambda x: torch.complex(x, -x).conj().imag,
    "fft": lambda x: torch.fft.rfft(x).abs(),
    "svd": torch.linalg.svdvals,
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(1, torch.ones_like(x, dtype=torch.long), x),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2.0),
    "arange": lambda x: torch.arange(4, device=x.device) * 2,
    "unique": torch.unique,
    "nothing": lambda x: x[:0] + 1,
    "out": lambda x: torch.add(x, x, out=torch.empty(0, device=x.device)),
    "norm": lambda x: x.norm(),
    "a CTC loss": lambda x: F.ctc_loss(
        x[:, None].log_softmax(2), torch.tensor([[1, 2]], device=x.device), torch.tensor([4]), torch.tensor([2])
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_operators_one_by_one(function: Callable[[Any], Any]) -> None:
    torch.manual_seed(2)
    x = torch.randn(4, 5)
    for _ in range(2):
        found = function(x.to(dml))
        assert found.device == dml
        torch.testing.assert_close(found.cpu(), function(x), rtol=1e-5, atol=1e-5)


def test_operators_in_place() -> None:
    torch.manual_seed(2)
    x = torch.randn(4, 5)
    y = x.to(dml)
    for one in (x, y):
        one[0] = 7
        one[:, 1] += 2
        one[one < 0] = 0
        one.mul_(3).clamp_(max=5).sub_(1, alpha=2)
        one.t().add_(1)
    torch.testing.assert_close(x, y.cpu())
    y.resize_(2, 2)
    assert y.tolist() == x[0, :4].view(2, 2).tolist()
    assert y.resize_(40).shape == (40,)


def test_operators_run_on_our_engine() -> None:
    before = len(eager._programs)
    x = torch.randn(3, 7, device=dml)
    torch.relu(x) @ x.t()
    made = [one for one in list(eager._programs.values())[before:] if one is not None]
    assert len(made) >= 2
    assert not any(one.fallbacks for one in made)


def test_learnt_moments_run_on_our_engine() -> None:
    model, x = nn.BatchNorm2d(3).eval(), torch.randn(2, 3, 5, 5)
    wanted = model(x)
    before = len(eager._programs)
    torch.testing.assert_close(model.to(dml)(x.to(dml)).cpu(), wanted, rtol=1e-5, atol=1e-5)
    assert list(eager._programs.values())[before:][-1] is not None


def test_what_falls_back_is_said_once() -> None:
    x = torch.eye(3, device=dml) + 1
    with pytest.warns(UserWarning, match=r"aten\.linalg_inv_ex runs by PyTorch on the host: .*no lowering"):
        torch.linalg.inv(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.linalg.inv(x + 1)


def test_many_operators_name_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2, device=dml)
    monkeypatch.setattr(eager, "_calls", eager._MANY - 1)
    with pytest.warns(UserWarning, match=r"torch\.compile\(model, backend='anydml'\)"):
        x + x


def test_numbers_that_change_keep_few_programs() -> None:
    x = torch.ones(11, 3, device=dml)
    before = sum(one is not None for one in eager._programs.values())
    for k in range(12):
        assert (x * (k + 0.5)).sum().item() == pytest.approx(33 * (k + 0.5))
    assert sum(one is not None for one in eager._programs.values()) - before <= eager._MOST_NUMBERS + 1


def test_tensors_on_two_devices_are_pytorchs_error() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3, device=dml) + torch.ones(3)
    assert torch.ones(3, device=dml)[torch.tensor([0, 2])].tolist() == [1, 1]
    assert (torch.ones(3, device=dml) + torch.tensor(2.0)).tolist() == [3, 3, 3]


WRONG: dict[str, Callable[[Any], Any]] = {
    "sizes": lambda d: torch.ones(2, device=d) + torch.ones(3, device=d),
    "sizes of a product": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "sizes in place": lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
    "a type in place": lambda d: torch.ones(3, dtype=torch.int64, device=d).mul_(1.5),
    "a type of out": lambda d: torch.add(torch.ones(3, device=d), 1.0, out=torch.ones(3, dtype=torch.int64, device=d)),
    "a place": lambda d: torch.ones(2, device=d)[5],
    "a row": lambda d: torch.ones(2, 3, device=d)[[0, 2]],
    "a row before the first": lambda d: F.embedding(torch.tensor([-1], device=d), torch.ones(2, 3, device=d)),
    "a divisor": lambda d: torch.ones(2, dtype=torch.int64, device=d) // 0,
    "a leaf": lambda d: torch.ones(2, 2, device=d).requires_grad_().view(4).mul_(2),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_errors_are_those_of_the_host(wrong: Callable[[Any], Any]) -> None:
    with pytest.raises((RuntimeError, IndexError)) as expected:
        wrong(torch.device("cpu"))
    for _ in range(2):
        with pytest.raises(expected.type) as found:
            wrong(dml)
        assert str(found.value) == str(expected.value)


def test_what_has_no_place_on_the_device() -> None:
    with pytest.raises(anydml.UnsupportedError, match=r"torch_directml: tensors on the device must be strided"):
        torch.eye(3, device=dml).to_sparse()
    with pytest.raises(NotImplementedError):
        torch.eye(3).to_sparse().to(dml)
    with pytest.raises(NotImplementedError, match="meta"):
        torch.empty(3, device="meta").to(dml)
    with pytest.raises(anydml.UnsupportedError, match=r"torch_directml: tensors on the device must not be quantised"):
        torch.quantize_per_tensor(torch.ones(3, device=dml), 0.1, 0, torch.qint8)
    with pytest.raises(anydml.DescriptionError, match="there must be a device 99"):
        torch.ones(2, device="privateuseone:99")


def test_threads() -> None:
    found: list[bool] = []

    def work(k: int) -> None:
        x = torch.full((20 + k, 20), float(k), device=dml)
        for _ in range(5):
            y = (x @ x.t()).relu() + k
        found.append(bool((y == 20 * k * k + k).all()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert found == [True] * 4


def test_functions_of_functions() -> None:
    x = torch.arange(3.0, device=dml)
    assert torch.func.grad(lambda x: (x**3).sum())(x).tolist() == [0, 3, 12]
    assert torch.vmap(lambda x: x * 2)(x).tolist() == [0, 2, 4]
    x.requires_grad_()
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [0, 6, 12]


@pytest.mark.parametrize("number", range(1, torch_directml.device_count()))
def test_other_devices(number: int) -> None:
    device = torch_directml.device(number)
    x = torch.arange(6.0, device=device).view(2, 3)
    y = (x @ x.t()).relu() + 1
    assert y.device == device
    assert y.to(dml).tolist() == [[6, 15], [15, 51]]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        y + torch.ones(2, 2, device=dml)
    made = list(eager._programs.values())[-1]
    assert made is not None
    assert made.parts[0].graphs[0].device.name.startswith("webgpu")


def test_random_numbers_are_those_of_the_host() -> None:
    found = []
    for device in (dml, torch.device("cpu")):
        torch.manual_seed(1)
        found.append([torch.randn(3, device=device).cpu(), torch.rand(2, device=device).cpu()])
        found[-1].append(F.dropout(torch.ones(20, device=device), 0.5).cpu())
    torch.testing.assert_close(*found)


DRAWS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda x: torch.normal(x, x),
    "multinomial": lambda x: x.multinomial(3),
    "binomial": lambda x: torch.binomial(x * 5, x / 2),
    "gamma": torch._standard_gamma,
    "poisson": torch.poisson,
    "rrelu": lambda x: F.rrelu(-x, training=True),
    "trunc_normal_": lambda x: nn.init.trunc_normal_(x.clone()),
    "a generator": lambda x: torch.randn(3, generator=torch.Generator().manual_seed(2), device=x.device),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_each_draw_takes_as_many_random_numbers_as_on_the_host(draw: Callable[[Any], Any]) -> None:
    found = []
    for device in (torch.device("cpu"), dml):
        torch.manual_seed(1)
        x = torch.ones(4, device=device)
        found.append([draw(x).cpu(), torch.rand(2, device=device).cpu()])
    torch.testing.assert_close(*found)


def test_a_transformer_with_padding_as_it_infers() -> None:
    torch.manual_seed(1)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        wanted = model(x, src_key_padding_mask=padding)
        found = model.to(dml)(x.to(dml), src_key_padding_mask=padding.to(dml)).cpu()
    torch.testing.assert_close(found[~padding], wanted[~padding], rtol=1e-4, atol=1e-5)


def test_data_parallel_is_the_module_itself() -> None:
    model = nn.Linear(2, 1)
    for device in (torch.device("cpu"), dml):
        assert nn.DataParallel(model.to(device))(torch.ones(3, 2, device=device)).shape == (3, 1)


def test_files_and_copies() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(dml)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for location, device in ((None, dml), ("cpu", torch.device("cpu")), (dml, dml)):
        file.seek(0)
        state = torch.load(file, map_location=location)
        assert {one.device for one in state.values()} == {device}
        other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(dml)
        other.load_state_dict(state)
        assert torch.equal(other[0].weight, model[0].weight)
    file = io.BytesIO()
    torch.save(torch.ones(3), file)
    file.seek(0)
    assert torch.load(file, map_location=dml).device == dml
    twin = copy.deepcopy(model)
    twin[0].weight.data.zero_()
    assert twin[0].weight.device == dml
    assert model[0].weight.abs().sum().item() > 0


def test_shared_parameters_stay_shared() -> None:
    model = GPT(7, 4, 1, 1, 3).to(dml)
    assert model.head.weight is model.wte.weight
    assert model.cpu().head.weight is model.wte.weight


@pytest.mark.parametrize(("workers", "pinned"), [(0, False), (2, False), (0, True)])
def test_data_loaders(workers: int, pinned: bool) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(10.0), torch.arange(10))
    found = []
    for x, y in torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers, pin_memory=pinned):
        found += (x.to(dml) + y.to(dml, non_blocking=True)).tolist()
    assert found == [2.0 * k for k in range(10)]


def test_half_and_autocast() -> None:
    model = nn.Linear(3, 2).to(dml)
    x = torch.ones(2, 3, device=dml)
    with torch.autocast("privateuseone", dtype=torch.float16):
        y = model(x)
        assert y.dtype == torch.float16
        assert (x + 1).dtype == torch.float32
    torch.testing.assert_close(y.float(), model(x), rtol=1e-2, atol=1e-2)
    y.float().sum().backward()
    assert model.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks(kind: Any) -> None:
    torch.manual_seed(3)
    model, x = kind(3, 4, 2, bidirectional=True), torch.randn(5, 2, 3)
    other = copy.deepcopy(model).to(dml)
    for net, given in ((model, x), (other, x.to(dml))):
        net(given)[0].square().sum().backward()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad.cpu(), rtol=1e-4, atol=1e-5)


def train(model: Any, data: list[Any], make: Callable[[Any], Any], *, compiled: bool = False) -> list[float]:
    optimiser, losses = make(model.parameters()), []
    run = torch.compile(model, backend=backend.compile_graph, dynamic=False) if compiled else model
    for x, y in data:
        optimiser.zero_grad()
        loss = F.cross_entropy(run(x).flatten(0, -2), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.long
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind", ["ResNet-18", "GPT"])
def test_networks_train(kind: str, compiled: bool) -> None:
    torch.manual_seed(1)
    torch._dynamo.reset()
    if kind == "GPT":
        model, data = GPT(31, 16, 2, 2, 12), [(torch.randint(0, 31, (2, 12)), torch.randint(0, 31, (2, 12)))] * 3
        make: Any = lambda several: torch.optim.AdamW(several, lr=1e-3)  # noqa: E731 - of two
    else:
        model, data = ResNet18(4, 5), [(torch.randn(4, 3, 64, 64), torch.randint(0, 5, (4,)))] * 3
        make = lambda several: torch.optim.SGD(several, lr=0.01, momentum=0.9)  # noqa: E731 - of two
    other = copy.deepcopy(model).to(dml)
    wanted = train(model, data, make)
    found = train(other, [(x.to(dml), y.to(dml)) for x, y in data], make, compiled=compiled)
    assert found == pytest.approx(wanted, rel=1e-4)
    for one, two in zip(model.buffers(), other.buffers(), strict=True):  # running moments
        torch.testing.assert_close(one, two.cpu(), rtol=1e-3, atol=1e-4)


def test_compiled_models_on_the_device() -> None:
    torch.manual_seed(1)
    torch._dynamo.reset()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).to(dml)
    programs: list[Any] = []
    with torch.no_grad():
        run, x = torch.compile(model, backend=backend.compile_graph), torch.randn(2, 3, 6, 6, device=dml)
        for _ in range(2):
            with backend.watching(programs.append):
                found = run(x)
            assert found.device == dml
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
            model[0].weight.mul_(2)  # which is seen
    (program,) = programs
    assert not program.fallbacks
