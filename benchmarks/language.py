"""Language models of made-up weights against ONNX Runtime, GenAI and llama.cpp: `python -m benchmarks.language`.

Each contestant has a process of its own, and all take turns: in a round each takes in a prompt, later decodes so many
tokens, so that each step is of a length that was not there before. Of times the medians over the rounds, half of what
lies between their quartiles as the spread; peak memory is that of the process. `session` is ONNX Runtime's interface with
caches that are bound and written in place, `generator` GenAI's; llama.cpp has the same weights in a GGUF file, blocks of 4
bits as Q4_0, and a cache of FLOAT16. A step's share of reading is the time in which a sum reads as many bytes as the step
has weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import written

REST = 0.1
"""Seconds before each turn: ONNX Runtime's threads spin for a while after theirs, on cores that the next would use."""
CONTESTANTS = {
    "anydml session": ("session", "anydml.onnxruntime"),
    "ONNX Runtime session": ("session", "onnxruntime"),
    "anydml generator": ("generator", "anydml.genai"),
    "GenAI generator": ("generator", "onnxruntime_genai"),
    "llama.cpp": ("llama", "llama_cpp"),
    "a sum": ("reader", "anydml"),
}
"""The class below, and what it imports."""
OURS = "anydml session", "anydml generator", "a sum"
PEERS = {
    "ONNX Runtime session": ("ort", "anydml session"),
    "GenAI generator": ("genai", "anydml generator"),
    "llama.cpp": ("llama", "anydml generator"),
}
"""What `--peers` calls each, and which of ours it is held against."""


def main(arguments: list[str] | None = None) -> int:
    """Print a table for each model and number of threads."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language", description=__doc__)
    parser.add_argument(
        "--peers", default="ort,genai,llama", help="of ort, genai and llama, with commas; those that are installed run"
    )
    parser.add_argument("--only", default="", help="models whose name has one of these in it, with semicolons")
    parser.add_argument("--threads", type=lambda text: [*map(int, text.split(","))], default=[2], help="with commas")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or webgpu; peers run on the first alone")
    parser.add_argument(
        "--batch", type=lambda text: [*map(int, text.split(","))], default=[1], help="sequences, with commas"
    )
    parser.add_argument("--prompt", type=int, default=512, help="tokens that are taken in")
    parser.add_argument("--tokens", type=int, default=16, help="decoded in a round")
    parser.add_argument("--rounds", type=int, default=5, help="of decoding")
    parser.add_argument("--prefills", type=int, default=3, help="rounds that take in the prompt")
    parser.add_argument("--small", action="store_true", help="narrow models of two layers, to try this out")
    parser.add_argument("--folder", type=Path, help="keep the models here, and use those that are there")
    parser.add_argument("--json", type=Path, help="write all times here")
    parser.add_argument("--turn", nargs=2, metavar=("WHO", "OPTIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.turn:
        return _take_turns(*options.turn)
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        for shape, folder, size in _folders(options, options.folder or Path(temporary)):
            for threads, batch in itertools.product(options.threads, options.batch):
                found.append(row := Row(shape.name, threads, batch, size, options))
                row.measure(folder)
                print(row, flush=True)
            if not options.folder:
                for file in folder.iterdir():
                    file.unlink()
    if options.json:
        options.json.write_text(json.dumps([row.data() for row in found], indent=1))
    return 0


def _folders(options: argparse.Namespace, place: Path) -> Any:
    from benchmarks.genai_folder import FOR_GPUS, SHAPES, make_folder

    for shape in SHAPES if options.device == "cpu" else [*SHAPES, *FOR_GPUS]:
        if not any(part in shape.name for part in options.only.split(";")):
            continue
        name = shape.name
        if options.small:
            shape = dataclasses.replace(shape, width=128, inner=256, layers=2, heads=4, shared=2, size=32, words=256)
        folder = place / re.sub(r"\W+", "-", f"{name} small" if options.small else name)
        kept = folder / "size"
        if not kept.exists():
            size = make_folder(folder, shape)
            kept.write_text(str(size))
        yield shape, folder, int(kept.read_text())


class Row:
    """A model and a number of threads: times of all contestants."""

    def __init__(self, name: str, threads: int, batch: int, size: int, options: argparse.Namespace) -> None:
        self.name, self.threads, self.batch, self.size, self._options = name, threads, batch, size, options
        self.cache = 0
        """Bytes of the cache that a step reads at the prompt's length."""
        self.prefill: dict[str, list[float]] = {}
        self.decode: dict[str, list[float]] = {}
        self.first: dict[str, float] = {}
        """The first prompt, for which ours compiles."""
        self.another: dict[str, float] = {}
        """A prompt of a length that was not seen before."""
        self.peak: dict[str, int] = {}
        self.read = 0.0
        """Bytes a second that a sum reads."""

    def measure(self, folder: Path) -> None:
        """Let all take turns."""
        options = self._options
        config = json.loads((folder / "genai_config.json").read_text())
        decoder = config["model"]["decoder"]
        decoder["session_options"]["intra_op_num_threads"] = self.threads
        decoder["session_options"]["provider_options"] = [] if options.device == "cpu" else [{options.device: {}}]
        (folder / "genai_config.json").write_text(json.dumps(config))
        numbers = decoder["num_hidden_layers"] * decoder["num_key_value_heads"] * decoder["head_size"]
        self.cache = 2 * (2 if "fp16" in self.name else 4) * numbers * options.prompt * self.batch
        asked = {"folder": str(folder), "threads": self.threads, "prompt": options.prompt, "tokens": options.tokens}
        asked |= {"rounds": options.rounds, "device": options.device, "batch": self.batch}
        has_peers = options.device == "cpu"
        who = [name for name in CONTESTANTS if name in OURS or (has_peers and _is_asked(name, options.peers))]
        sides = {name: _Side(name, asked) for name in who}
        try:
            speeds = []
            for number in range(options.prefills + 1):
                for name in who[:-1]:
                    if number:
                        self.prefill.setdefault(name, []).append(sides[name]("prefill"))
                    else:
                        self.first[name] = sides[name]("prefill")
            for number in range(options.rounds):
                for name in who[:: -1 if number % 2 else 1]:
                    if name == "a sum":
                        speeds.append(sides[name]("read"))
                    else:
                        self.decode.setdefault(name, []).append(statistics.median(sides[name]("decode")))
            for name in who[:-1]:
                self.another[name] = sides[name]("another")
                self.peak[name] = sides[name]("peak")
            self.read = max(speeds)
        finally:
            for side in sides.values():
                side.close()

    def __str__(self) -> str:
        where = f"threads {self.threads}" if self._options.device == "cpu" else self._options.device
        where += f", {self.batch} sequences" if self.batch > 1 else ""
        read = f"{self.size / 1e6:.0f} MB of weights and {self.cache / 1e6:.0f} MB of cache"
        lines = [f"{self.name}, {where}: {read}, read at {self.read / 1e9:.1f} GB/s"]
        head = f"{'':22} {'step':>10} {'spread':>10} {'tokens/s':>9} {'of reading':>10} {'prefill':>10} {'spread':>10} {'tokens/s':>9}"
        lines.append(f"{head} {'first':>10} {'another':>10} {'peak':>9}")
        for name, steps in self.decode.items():
            step, prefill = statistics.median(steps), statistics.median(self.prefill[name])
            share = (self.size + self.cache) / self.read / step
            cells = (
                f"{written(step):>10} {written(spread(steps)):>10} {1 / step:9.1f} {share:10.2f} {written(prefill):>10}"
            )
            cells += f" {written(spread(self.prefill[name])):>10} {self._options.prompt / prefill:9.0f}"
            cells += f" {written(self.first[name]):>10} {written(self.another[name]):>10}"
            lines.append(f"{name:22} {cells} {self.peak[name] / 1e6:6.0f} MB")
        for peer, (_, own) in PEERS.items():
            if peer in self.decode:
                ratios = [
                    f"{what} {statistics.median(b / a for a, b in zip(times[own], times[peer], strict=True)):.2f}"
                    for what, times in (("decode", self.decode), ("prefill", self.prefill))
                ]
                memory = self.peak[own] / self.peak[peer]
                lines.append(f"{peer}'s time over ours: {', '.join(ratios)}; our memory over theirs {memory:.2f}")
        return "\n".join(lines) + "\n"

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def spread(times: list[float]) -> float:
    """Half of what lies between the quartiles."""
    if len(times) < 2:
        return 0.0
    low, _, high = statistics.quantiles(times, n=4)
    return (high - low) / 2


def _is_asked(name: str, peers: str) -> bool:
    word, _ = PEERS[name]
    return word in peers.split(",") and importlib.util.find_spec(CONTESTANTS[name][1]) is not None


class _Side:
    """A contestant's process."""

    def __init__(self, who: str, asked: dict[str, Any]) -> None:
        words = [sys.executable, "-m", "benchmarks.language", "--turn", who, json.dumps(asked)]
        self._who = who
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this module, and a turn of it

    def __call__(self, what: str) -> Any:
        assert self._process.stdin is not None  # noqa: S101 - for type checkers: a pipe was asked for
        assert self._process.stdout is not None  # noqa: S101 - for type checkers: likewise
        time.sleep(REST)
        print(what, file=self._process.stdin, flush=True)
        if not (line := self._process.stdout.readline()):
            raise SystemExit(f"{self._who}: its process ended with status {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate()


# In a contestant's process


def _take_turns(who: str, asked: str) -> int:
    kind, package = CONTESTANTS[who]
    contestant = _KINDS[kind](importlib.import_module(package), **json.loads(asked))
    for line in sys.stdin:
        print(json.dumps(getattr(contestant, line.strip())()), flush=True)
    return 0


class _Contestant:
    def __init__(
        self, package: Any, folder: str, threads: int, prompt: int, tokens: int, rounds: int, device: str, batch: int
    ) -> None:
        config = json.loads((Path(folder) / "genai_config.json").read_text())["model"]
        rng = np.random.default_rng(0)
        self.package, self.folder, self.threads, self.config = package, Path(folder), threads, config
        self.given = rng.integers(3, config["vocab_size"], (batch, prompt))
        self.tokens, self.device, self.batch = tokens, device, batch
        self.room = prompt + tokens * rounds + 2
        self.load()

    def load(self) -> None:
        """Make ready."""

    def peak(self) -> int:
        """Bytes of this process at most."""
        try:  # what the C library tells begins with those of the process that started this one
            found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        except OSError:
            found = None
        if found is not None:
            return 1024 * int(found[1])
        from anydml.onnx.program import peak_of_process

        return peak_of_process() or 0

    def prefill(self) -> float:
        """Seconds until the logits after a prompt are there."""
        return self.take(self.given)

    def another(self) -> float:
        """Seconds for a prompt that is shorter by a prime."""
        return self.take(self.given[:, : max(1, self.given.shape[1] - 13)])

    def take(self, given: Any) -> float:
        """Seconds until the logits after these tokens are there."""
        raise NotImplementedError  # a reader of weights takes no tokens

    def timed(self, step: Callable[[], object]) -> float:
        begun = time.perf_counter()
        step()
        return time.perf_counter() - begun


class _Session(_Contestant):
    """A program on a session: caches are bound once, and written in place."""

    def load(self) -> None:
        ort, decoder = self.package, self.config["decoder"]
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        provider = {"cpu": "CPU", "cuda": "CUDA", "webgpu": "WebGpu"}[self.device] + "ExecutionProvider"
        self.session = ort.InferenceSession(str(self.folder / "model.onnx"), options, providers=[provider])
        self.dtype = np.float16 if "float16" in self.session.get_outputs()[0].type else np.float32
        sizes = self.batch, decoder["num_key_value_heads"], self.room, decoder["head_size"]
        self.bindings = {kind: self.session.io_binding() for kind in ("prompt", "step")}
        logits = ort.OrtValue.ortvalue_from_numpy(np.zeros((self.batch, 1, self.config["vocab_size"]), self.dtype))
        self.bindings["step"].bind_ortvalue_output("logits", logits)
        self.caches = []
        for layer in range(decoder["num_hidden_layers"]):
            for part in ("key", "value"):
                self.caches.append(
                    cache := ort.OrtValue.ortvalue_from_numpy(np.zeros(sizes, self.dtype), self.device, 0)
                )
                for binding in self.bindings.values():
                    binding.bind_ortvalue_input(f"past_key_values.{layer}.{part}", cache)
                    binding.bind_ortvalue_output(f"present.{layer}.{part}", cache)

    def _run(self, binding: Any, ids: Any, length: int) -> None:
        binding.bind_cpu_input("input_ids", ids)
        binding.bind_cpu_input("attention_mask", np.ones((self.batch, length), np.int64))
        self.session.run_with_iobinding(binding)

    def take(self, given: Any) -> float:
        self.bindings["prompt"].bind_output("logits", "cpu")

        def prompt() -> None:
            self._run(self.bindings["prompt"], given, given.shape[1])
            self.bindings["prompt"].get_outputs()[0].numpy()[:, -1].argmax(-1)

        self.length = given.shape[1]
        return self.timed(prompt)

    def decode(self) -> list[float]:
        """Seconds of each step."""
        return [self.timed(self._step) for _ in range(self.tokens)]

    def _step(self) -> None:
        self.length += 1
        self._run(self.bindings["step"], self.given[:, :1], self.length)
        self.bindings["step"].get_outputs()[0].numpy().argmax(-1)


class _Generator(_Contestant):
    """A program on GenAI's interface."""

    generator: Any = None

    def load(self) -> None:
        if self.package.__name__.startswith("anydml"):
            import anydml

            anydml.set_num_threads(self.threads)
        self.model = self.package.Model(str(self.folder))

    def take(self, given: Any) -> float:
        self.generator = None  # before another has caches
        params = self.package.GeneratorParams(self.model)
        params.set_search_options(
            max_length=self.room, min_length=self.room, do_sample=False, num_beams=1, batch_size=self.batch
        )
        self.generator = self.package.Generator(self.model, params)
        taken = self.timed(lambda: self.generator.append_tokens(given.astype(np.int32)))
        self.generator.generate_next_token()  # chosen by logits that are there: no step
        return taken

    def decode(self) -> list[float]:
        """Seconds of each token."""
        return [self.timed(self.generator.generate_next_token) for _ in range(self.tokens)]


class _Llama(_Contestant):
    """llama.cpp by the calls that its Python package hands on."""

    def load(self) -> None:
        from benchmarks.gguf_file import write_gguf

        path = self.folder / "model.gguf"
        if not path.exists():
            write_gguf(self.folder, path)
        self.model = self.package.Llama(
            str(path), n_ctx=self.room, n_batch=self.room, n_ubatch=512, n_threads=self.threads,
            n_threads_batch=self.threads, verbose=False,
        )  # fmt: skip

    def _step(self, tokens: list[int]) -> None:
        self.model.eval(tokens)
        logits = self.package.llama_get_logits_ith(self.model.ctx, -1)
        np.ctypeslib.as_array(logits, (self.config["vocab_size"],)).argmax()

    def take(self, given: Any) -> float:
        self.model.reset()
        return self.timed(lambda: self._step(given[0].tolist()))

    def decode(self) -> list[float]:
        """Seconds of each token."""
        return [self.timed(lambda: self._step([int(self.given[0, 0])])) for _ in range(self.tokens)]


class _Reader(_Contestant):
    """How fast memory is read: a sum over numbers that no cache holds."""

    def load(self) -> None:
        self.package.set_num_threads(self.threads)
        self.read_from: Any = np.ones((1 << 12, 1 << 15), np.float32)
        self.wait: Callable[[], object] = lambda: None
        if self.device == "cuda":
            import torch

            self.read_from, self.wait = torch.from_numpy(self.read_from).cuda(), torch.cuda.synchronize

    def read(self) -> float:
        """Bytes a second, at most."""
        add = self.package.reduce
        least = min(self.timed(lambda: (add(self.read_from, function="sum", axes=[1]), self.wait())) for _ in range(5))
        return float(self.read_from.nbytes / least)


_KINDS = {"session": _Session, "generator": _Generator, "llama": _Llama, "reader": _Reader}

if __name__ == "__main__":
    raise SystemExit(main())
