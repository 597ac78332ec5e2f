"""`anydml bench`: how fast a folder's prompts are taken in and its tokens made, and with how much memory."""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.genai.generator import Generator, GeneratorParams
from anydml.onnx.program import peak_of_process
from anydml.onnxruntime.ort_errors import refuse

if TYPE_CHECKING:
    from anydml.genai.model import Model


@dataclass
class Figures:
    """Of several runs: medians, and the first run by itself, which compiles."""

    prompt_tokens: int
    tokens: int
    runs: int
    first_run_seconds: float
    """Of the run before those that count."""
    first_token_seconds: float
    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    least_decode_seconds: float
    """Of the fastest step."""
    peak_memory: int | None
    """Bytes of the whole process."""

    def data(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def bench(model: Model, prompt: int, tokens: int, runs: int, batch: int) -> Figures:
    """Run a made-up prompt so often, after a first run that does not count."""
    if prompt + tokens > model.context_length:
        rule = f"prompt and tokens must be at most {model.context_length} together, the model's context_length"
        raise refuse("anydml bench", "prompt", rule, f"{prompt} + {tokens}")
    rng = np.random.default_rng(0)
    # What ends a sequence, or pads it, is no token of a prompt.
    taken = {*model.config.eos_token_ids, model.config.number("pad_token_id", 0)}
    words = np.array([token for token in range(min(model.vocab_size, 65_536)) if token not in taken])
    given = rng.choice(words, (batch, prompt)).astype(np.int32)
    begun = time.perf_counter()
    _run(model, given, tokens)
    first_run = time.perf_counter() - begun
    found = [_run(model, given, tokens) for _ in range(runs)]
    steps = [step for _, run in found for step in run]
    first = statistics.median(first for first, _ in found)
    decode = statistics.median(batch * len(run) / sum(run) if run else 0.0 for _, run in found)
    least = min(steps, default=0.0)
    rate = batch * prompt / first
    return Figures(prompt, tokens, runs, first_run, first, rate, decode, least, peak_of_process())


def _run(model: Model, given: np.ndarray[Any, Any], tokens: int) -> tuple[float, list[float]]:
    """The seconds to the first token, and of each further one."""
    params = GeneratorParams(model)
    batch, prompt = given.shape
    length = prompt + tokens
    params.set_search_options(max_length=length, min_length=length, batch_size=batch, do_sample=False, num_beams=1)
    generator = Generator(model, params)
    begun = time.perf_counter()
    generator.append_tokens(given)
    times = [begun]
    while not generator.is_done():
        generator.generate_next_token()
        times.append(time.perf_counter())
    return times[1] - begun, [after - before for before, after in itertools.pairwise(times[1:])]
