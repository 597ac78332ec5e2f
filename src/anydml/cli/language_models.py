"""`anydml chat`, `anydml serve` and `anydml bench`: a folder of ONNX Runtime GenAI from the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.console import write_json
from anydml.cli.progress import working
from anydml.core.late_imports import import_alone
from anydml.core.memory import word_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.genai.generator import GeneratorParams
    from anydml.genai.model import Model

_LENGTH = 4096
"""Tokens of a prompt and its answer, where a model's context has room for more and nobody says how many."""


def _folder(function: Callable[..., None]) -> Callable[..., None]:
    """The options of all of them."""
    device = click.option(
        "--device",
        metavar="NAME",
        help="cpu, cuda, dml or webgpu, with a number where there are several (cuda:1); the folder's by default.",
    )
    threads = click.option("--threads", type=click.IntRange(1), help="The threads of the cpu engine.")
    path = click.argument("folder", type=click.Path(path_type=Path))
    return path(device(threads(function)))


def _load(folder: Path, device: str | None, threads: int | None, *, is_quiet: bool = False) -> Model:
    import_alone("anydml.genai")
    from anydml.genai import Config, Model  # its packages are not everybody's

    config = Config(folder)
    if device is not None:
        name, _, number = device.partition(":")
        config.clear_providers()
        config.append_provider(name)
        if number:
            config.set_provider_option(name, "device_id", number)
    if threads is not None:
        config.section("model", "decoder").setdefault("session_options", {})["intra_op_num_threads"] = threads
    if is_quiet:
        return Model(config)
    with working(f"Loading {folder.name}"):
        return Model(config)


def _params(model: Model, length: int | None, **options: Any) -> GeneratorParams:
    from anydml.genai import GeneratorParams

    params = GeneratorParams(model)
    given = {name: value for name, value in options.items() if value is not None}
    if given.keys() & {"temperature", "top_p", "top_k"}:
        given["do_sample"] = True
    most = length or min(model.context_length, max(_LENGTH, int(params.get_search_options()["max_length"])))
    params.set_search_options(max_length=most, batch_size=1, num_beams=1, num_return_sequences=1, **given)
    return params


@click.command()
@_folder
@click.option("--system", metavar="TEXT", help="The system prompt.")
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="PATH",
    help="A picture to show before the first question; may be given several times.",
)
@click.option("--max-length", type=click.IntRange(2), help="The most tokens of the whole conversation.")
@click.option("--max-tokens", type=click.IntRange(1), help="The most tokens in an answer.")
@click.option(
    "--temperature", type=float, help="Sample tokens at this temperature; 0 always takes the most likely one."
)
@click.option("--top-p", type=float, help="Sample from the most likely tokens whose probabilities add up to this.")
@click.option("--top-k", type=int, help="Sample from this many of the most likely tokens.")
@click.option("--seed", type=int, help="The seed of sampling: the same seed gives the same answers.")
@click.option("--repetition-penalty", type=float, help="Above 1, tokens that occurred already become less likely.")
@click.option("--quiet", is_flag=True, help="Print no speed and no memory after an answer.")
def chat(
    folder: Path,
    device: str | None,
    threads: int | None,
    system: str | None,
    images: tuple[str, ...],
    max_length: int | None,
    max_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    top_k: int | None,
    seed: int | None,
    repetition_penalty: float | None,
    quiet: bool,
) -> None:
    """Talk with a language model in a folder of ONNX Runtime GenAI.

    Answers come token by token, with tokens a second and memory after them. Ctrl-C stops an answer and not the
    program; /clear begins anew; /image PATH shows a vision model a picture before the next question. Lines of a pipe
    are questions.

    \b
    Examples:
      anydml chat FOLDER
      anydml chat FOLDER --device webgpu --temperature 0.7
      anydml chat FOLDER --image photo.jpg
    """
    model = _load(folder, device, threads)
    from anydml.genai.chat import HELP, Conversation, converse, read_lines
    from anydml.genai.tokenizer import Tokenizer

    sampling = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "random_seed": seed}
    params = _params(model, max_length, repetition_penalty=repetition_penalty, **sampling)
    conversation = Conversation(model, Tokenizer(model), params, system, max_tokens)
    for path in images:
        conversation.show(path)
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        click.echo(f"{model.type} on {model.session.device.name}; {HELP}")
    converse(conversation, read_lines("> ") if is_terminal else sys.stdin, _say, tells=not quiet)


def _say(text: str) -> None:
    click.echo(text, nl=False)
    sys.stdout.flush()


@click.command()
@_folder
@click.option("--host", default="127.0.0.1", show_default=True, help="The address; one that others reach needs a key.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port; 0: a free one.")
@click.option(
    "--key", envvar="ANYDML_KEY", help="The key that clients must send; also from the environment: ANYDML_KEY."
)
@click.option("--name", help="The model's name for clients; the folder's by default.")
@click.option("--max-length", type=click.IntRange(2), help="The most tokens of a prompt and its answer together.")
@click.option(
    "--rows", type=click.IntRange(1, 64), default=4, show_default=True, help="Sequences that are generated together."
)
@click.option("--queue", type=click.IntRange(1), default=64, show_default=True, help="Requests that may wait.")
def serve(
    folder: Path,
    device: str | None,
    threads: int | None,
    host: str,
    port: int,
    key: str | None,
    name: str | None,
    max_length: int | None,
    rows: int,
    queue: int,
) -> None:
    """Serve a language model to OpenAI's clients.

    It answers /v1/chat/completions, /v1/completions and /v1/models, streamed or whole, for several clients at once.

    \b
    Examples:
      anydml serve FOLDER
      ANYDML_KEY=secret anydml serve FOLDER --host 0.0.0.0 --port 8080
    """
    import_alone("anydml.genai.server")
    from anydml.genai.batching import Batcher
    from anydml.genai.server import serve as run  # whose packages the others do without

    model = _load(folder, device, threads)
    length = min(max_length or _LENGTH, model.context_length)
    batcher = Batcher(model, rows, queue, length)
    given = name or folder.resolve().name

    def say(address: str) -> None:
        click.echo(f"{given} on {model.session.device.name}, {batcher.rows} at once: {address}")
        click.echo("It answers until you press Ctrl-C.")

    run(model, given, host, port, key or None, batcher, say)


@click.command()
@_folder
@click.option("--prompt", type=click.IntRange(1), default=128, show_default=True, help="Tokens of the prompt.")
@click.option("--tokens", type=click.IntRange(1), default=32, show_default=True, help="Tokens to generate.")
@click.option("--batch", type=click.IntRange(1, 32), default=1, show_default=True, help="Sequences in a batch.")
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True, help="Measured runs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def bench(
    folder: Path,
    device: str | None,
    threads: int | None,
    prompt: int,
    tokens: int,
    batch: int,
    runs: int,
    as_json: bool,
) -> None:
    """Measure a language model: tokens a second, time to the first, memory.

    The prompt is random. A first run, which compiles, is reported separately.

    \b
    Examples:
      anydml bench FOLDER
      anydml bench FOLDER --prompt 512 --tokens 128 --device cuda --json
    """
    model = _load(folder, device, threads, is_quiet=as_json)
    from anydml.genai.bench import bench as measure

    found = measure(model, prompt, tokens, runs, batch)
    if as_json:
        write_json({"folder": str(folder), "device": model.session.device.name, "batch": batch, **found.data()})
        return
    memory = "-" if found.peak_memory is None else word_bytes(found.peak_memory)
    click.echo(f"{model.type} on {model.session.device.name}, {prompt} + {tokens} tokens, batch {batch}, {runs} runs")
    first, step = found.first_token_seconds, found.least_decode_seconds * 1000
    click.echo(f"prefill  {found.prefill_tokens_per_second:10.1f} tokens/s, first token after {first:.4f} s")
    click.echo(f"decode   {found.decode_tokens_per_second:10.1f} tokens/s, fastest step {step:.2f} ms")
    click.echo(f"memory   {memory:>10}; the first run took {found.first_run_seconds:.2f} s")
