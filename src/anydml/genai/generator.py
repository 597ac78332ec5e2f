"""GeneratorParams and Generator: a model's tokens, one after another."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enum_parsing import suggest
from anydml.core.errors import show
from anydml.genai.adapters import Adapters
from anydml.genai.decoder import Decoder
from anydml.genai.encoders import SpeechEncoder
from anydml.genai.guidance import Guide
from anydml.genai.log import log, log_arrays, tells
from anydml.genai.model import Loaded, Model
from anydml.genai.search import BeamSearch, Search
from anydml.genai.tensors import NamedTensors, as_array, read_name, read_whole
from anydml.onnxruntime.ort_errors import refuse, refuse_type, told
from anydml.onnxruntime.ort_value import on_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    Array = np.ndarray[Any, Any]

GUIDANCE = ("json_schema", "regex", "lark_grammar")
"""What a guidance may be written as."""
_SPECULATIVE: dict[str, bool | int] = {
    "max_draft_tokens": 4,
    "ngram_size": 0,
    "ngram_chained_lookup": False,
    "min_adaptive_k": 0,
    "cooldown": False,
}
_LONG = {"phi3": 4097, "phimoe": 4097, "phi3small": 8193}
"""By family, the length from which positions are turned by other factors: what was taken in before is taken in anew."""
_COUNTS = (
    *("rounds", "completed_rounds", "interrupted_rounds", "active_rounds", "draft_tokens_proposed"),
    *("draft_tokens_evaluated", "draft_tokens_accepted", "correction_tokens", "bonus_tokens", "tokens_queued"),
    *("tokens_emitted", "tokens_discarded", "tokens_buffered", "draft_forward_passes", "target_forward_passes"),
    *("full_accept_rounds", "partial_accept_rounds", "zero_accept_rounds", "standard_fallback_steps", "effective_k"),
)


@dataclass(frozen=True)
class Guidance:
    """What an answer must look like."""

    kind: str
    text: str
    forces: bool = False
    """Whether tokens that must follow are taken without asking the model."""


class GeneratorParams:
    """How a generator chooses tokens: the folder's search options, and what `set_search_options` changes."""

    def __init__(self, model: Model) -> None:
        if not isinstance(model, Model):
            raise refuse_type("GeneratorParams", "model", "a Model", model)
        self.options = model.config.search
        """The search options."""
        self.guidance: Guidance | None = None
        """What answers must look like."""
        self._speculative = dict(_SPECULATIVE)

    def set_search_options(self, **options: Any) -> None:
        """Set search options: max_length=200, do_sample=True, top_k=50. Where one is refused none is set."""
        changed = copy.copy(self.options)
        for name, value in options.items():
            changed.set(name, value)
        self.options = changed

    def get_search_options(self) -> dict[str, Any]:
        """All search options."""
        return self.options.told()

    def set_guidance(self, type: str, data: str, enable_ff_tokens: bool = False) -> None:
        """Let answers follow a JSON schema, a regular expression or a Lark grammar."""
        for name, value in (("type", type), ("data", data)):
            if not isinstance(value, str):
                raise refuse_type("GeneratorParams", name, "a string", value)
        if type not in GUIDANCE:
            rule = f"the type of a guidance must be one of {', '.join(GUIDANCE)}"
            raise refuse("GeneratorParams", "type", rule, show(type))
        self.guidance = Guidance(type, data, bool(enable_ff_tokens))

    def set_speculative_options(self, **options: Any) -> None:
        """Taken: a step makes one token here, and tokens are the same with drafts and without."""
        for name, value in options.items():
            if name not in _SPECULATIVE:
                way_out = suggest(name, _SPECULATIVE) or f"there are {', '.join(_SPECULATIVE)}"
                raise refuse("GeneratorParams", name, f"there is no speculative option {show(name)}", way_out=way_out)
            kind = type(_SPECULATIVE[name])
            if type(value) is not kind:
                raise refuse_type("GeneratorParams", name, f"of type {kind.__name__}", value)
            self._speculative[name] = value

    def get_speculative_options(self) -> dict[str, Any]:
        """The speculative options."""
        return {name: own if isinstance(own, bool) else float(own) for name, own in self._speculative.items()}


class Generator(Loaded):
    """Sequences that a model goes on with: tokens are appended, and the next ones chosen.

    Where a step fails, or is interrupted, the sequences are as they were before it, and may be gone on with.
    """

    _instead = "append its get_sequence(0) to another"

    def __init__(self, model: Model, params: GeneratorParams) -> None:
        if not isinstance(model, Model):
            raise refuse_type("Generator", "model", "a Model", model)
        if not isinstance(params, GeneratorParams):
            raise refuse_type("Generator", "params", "a GeneratorParams", params)
        self.model, self._options = model, copy.copy(params.options)
        options = self._options
        options.check(model.context_length, model.vocab_size)
        kind = BeamSearch if options.num_beams > 1 else Search
        self._search = kind(options, model.config.eos_token_ids, model.config.number("pad_token_id", 0))
        is_shared = options.past_present_share_buffer and options.num_beams == 1
        sizes = options.batch_size, options.num_beams, options.max_length
        self._decoder = Decoder(model, *sizes, is_shared=is_shared, chunk_size=options.chunk_size)
        self._encoder: SpeechEncoder | None = None
        if "encoder" in model.parts:
            self._encoder = SpeechEncoder(model, options.batch_size, options.num_beams)
        self._logits: Array | None = None
        """The logits that the next tokens are chosen by, where they are known."""
        self._is_ended = self._is_rewound = False
        self._long_from = _LONG.get(model.type, 0)
        self._guide: Guide | None = None
        if params.guidance is not None:
            self._guide = Guide(model, params.guidance, options)

    # Tokens in

    def append_tokens(self, tokens: Any) -> None:
        """Append tokens to the sequences, [n], or [batch_size, n], and take them in."""
        given = self._read_tokens(tokens)
        self._check_alive()
        if self._encoder is not None and not self._encoder.found:
            way_out = "generator.set_inputs(processor(prompt, audios=audios)) gives it"
            raise refuse("Generator", "audio_features", "there must be sound before tokens", "none", way_out)
        search, options = self._search, self._options
        if search.length and options.rows > 1:
            way_out = "rewind_to(0) begins anew"
            raise refuse("Generator", "tokens", "several sequences can be given tokens once alone", way_out=way_out)
        if (total := search.length + given.shape[1]) > options.max_length:
            rule = f"the sequence must have at most max_length = {options.max_length} tokens"
            way_out = (
                f"set_search_options(max_length=...) allows up to {self.model.context_length}"
                if options.max_length < self.model.context_length
                else "that is the model's context_length; give fewer tokens"
            )
            raise refuse("Generator", "tokens", rule, f"{given.shape[1]} after {search.length}: {total}", way_out)
        kept = copy.copy(search), search.tokens.copy(), self._logits
        try:
            search.append(given)
            self._logits, self._is_rewound = None, False
            self._compute()
        except BaseException:  # an interrupt too: what was appended is taken back
            self._search, self._logits = kept[0], kept[2]
            self._search.tokens = kept[1]
            raise

    def _read_tokens(self, tokens: Any) -> Array:
        given = np.asarray(as_array(tokens, "Generator", "tokens"))
        if given.size and given.dtype.kind not in "iu":
            raise refuse_type("Generator", "tokens", "an array of whole numbers", tokens)
        batch = self._options.batch_size
        if not given.size:
            raise refuse("Generator", "tokens", "there must be a token at least", "none")
        if given.ndim > 2 or given.size % batch or (given.ndim == 2 and given.shape[0] not in (1, batch)):
            rule = f"tokens must be of shape [n], or [batch_size, n], batch_size being {batch}"
            way_out = "set_search_options(batch_size=...) says how many sequences there are"
            raise refuse("Generator", "tokens", rule, show(list(given.shape)), way_out)
        least, most = int(given.min()), int(given.max())
        if self.model.type == "phi3v" and least < 0:  # a picture's number, below 0
            least = 0
        if least < 0 or most >= self.model.vocab_size:
            rule = f"tokens must be 0 to {self.model.vocab_size - 1}, the model's vocab_size being one more"
            raise refuse("Generator", "tokens", rule, str(most if most >= self.model.vocab_size else least))
        return given.reshape(batch, -1).astype(np.int32)

    def set_inputs(self, inputs: NamedTensors) -> None:
        """Set inputs of the model by name, and append the tokens among them, `input_ids`."""
        if not isinstance(inputs, NamedTensors):
            raise refuse_type("Generator", "inputs", "NamedTensors", inputs)
        given = {name: inputs[name] for name in inputs if name != "input_ids"}
        if self._encoder is not None:
            wanted = self._encoder.wanted
            taken = {wanted[name]: given.pop(name) for name in list(given) if name in wanted}
            with told():
                self._decoder.extra.update(self._encoder.take(taken))
        if (embedder := self._decoder.embedder) is not None:
            with told():
                embedder.take({name: given.pop(name) for name in list(given) if name in embedder.wanted})
        for name, value in given.items():
            self.set_model_input(name, value)
        if "input_ids" in inputs:
            self.append_tokens(inputs["input_ids"])

    def set_model_input(self, name: str, value: Any) -> None:
        """Give the model an input that it has beside tokens, masks, positions and caches."""
        read_name("Generator", "name", name)
        if self._encoder is not None and name in self._encoder.wanted.values():
            with told():
                self._decoder.extra.update(self._encoder.take({name: value}))
            return
        if name not in self.model.inputs:
            way_out = f"the model has {', '.join(map(show, list(self.model.inputs)[:8]))}"
            raise refuse("Generator", str(name), f"there is no input {show(name)}", way_out=way_out)
        self._decoder.extra[name] = np.array(as_array(value, "Generator", name))

    def set_hidden_states(self, hidden_states: Any) -> None:
        """Give the model the hidden states of another one's last step, where it has an input for them."""
        name = self.model.config.names("inputs").get("hidden_states", "hidden_states")
        self.set_model_input(name, hidden_states)

    # Tokens out

    def generate_next_token(self) -> None:
        """Choose the next token of every sequence."""
        self._check_alive()
        search = self._search
        if not search.length and self._logits is None:
            raise refuse("Generator", "", "there are no tokens to go on from", way_out="append_tokens(tokens) first")
        if search.length >= self._options.max_length:
            rule = f"the sequence has max_length = {self._options.max_length} tokens"
            way_out = "ask is_done() before, or rewind_to() fewer tokens"
            raise refuse("Generator", "max_length", rule, way_out=way_out)
        if self._chooses_there:
            with told():
                found = self._decoder.likeliest(search.tokens[:, search.length - 1 : search.length], search.barred)
            search.choose_likeliest(*found)
        else:
            self._choose()
        self._logits = None
        self._tell_choice()
        if self._guide is not None:
            self._guide.take(search.next_tokens)

    def _choose(self) -> None:
        """Choose by logits on the host."""
        search, logits = self._search, self._compute().copy()
        if tells("model_logits"):
            log_arrays("model_logits", {"logits": logits})
        if self._guide is not None:
            self._guide.mask(logits)
        if tells("generate_next_token"):
            log("generate_next_token", f"sequence length {search.length}, {self._options}")
        search.choose(logits)

    @property
    def _chooses_there(self) -> bool:
        """Whether the next tokens are the likeliest after one more step, which the decoder's device can say."""
        search, decoder = self._search, self._decoder
        is_step = self._logits is None and not self._is_rewound and 0 < decoder.length == search.length - 1
        is_plain = is_step and decoder.finds_likeliest and self._guide is None and self._options.is_greedy
        is_long = decoder.length < self._long_from <= search.length and self._options.rows == 1
        return is_plain and not is_long and not tells("model_logits") and not tells("generate_next_token")

    def _tell_choice(self) -> None:
        search = self._search
        if tells("append_next_tokens"):
            log("append_next_tokens", str(search.next_tokens.tolist()))
        if tells("hit_max_length") and search.length >= self._options.max_length:
            log("hit_max_length", str(search.length))
        elif tells("hit_eos") and search.is_done:
            log("hit_eos", str(search.length))

    def _compute(self) -> Array:
        """The logits after the sequences: tokens that were not taken in yet are."""
        search, decoder = self._search, self._decoder
        if self._is_rewound:
            search.append(search.next_tokens[:, None])
            self._is_rewound = False
        forced = [] if self._guide is None or self._logits is not None else self._guide.forced()
        if forced := forced[: self._options.max_length - search.length]:
            search.append(np.array([forced], np.int32))
        if decoder.length < self._long_from <= search.length and self._options.rows == 1:
            decoder.rewind(0)
        with told():
            for chunk in self._chunks():
                self._logits = decoder.run(chunk, search.beams)
                search.beams = None
        if self._logits is None:
            self._logits = np.zeros((self._options.rows, self.model.vocab_size), np.float32)
        return self._logits

    def _chunks(self) -> Iterator[Array]:
        """The tokens that were not taken in yet, a long prompt's in pieces where chunk_size asks for them."""
        search, decoder, size = self._search, self._decoder, self._options.chunk_size
        while decoder.length < search.length:
            is_cut = 0 < size < search.length - decoder.length and self._options.rows == 1
            is_cut = is_cut and decoder.embedder is None  # a picture's tokens stay together
            end = decoder.length + size if is_cut else search.length
            yield search.tokens[:, decoder.length : end]

    def is_done(self) -> bool:
        """Whether every sequence has ended, or is max_length long."""
        self._check_alive()
        if self._logits is not None:
            return self._search.length >= self._options.max_length
        return self._search.is_done

    def token_count(self) -> int:
        """The tokens of a sequence."""
        return self._search.length

    def get_next_tokens(self) -> Array:
        """The token of each sequence that was chosen last."""
        return self._search.next_tokens.copy()

    def get_sequence(self, index: int) -> Array:
        """A sequence's tokens; with beams one of the best of each prompt."""
        number = read_whole("Generator", "index", index)
        if not 0 <= number < self._search.count:
            raise refuse("Generator", "index", f"index must be 0 to {self._search.count - 1}", str(number))
        return self._search.sequence(number)

    # Logits

    def get_logits(self) -> Array:
        """The logits that the next tokens are chosen by, [rows, 1, vocab_size], as FLOAT32."""
        self._check_alive()
        return self._compute()[:, None].copy()

    def set_logits(self, logits: Any) -> None:
        """Put other logits in place of those that the next tokens are chosen by."""
        wanted = self._options.rows, self.model.vocab_size
        given = np.asarray(as_array(logits, "Generator", "logits"))
        if given.dtype.kind not in "fiu" or given.size != wanted[0] * wanted[1]:
            rule = f"logits must be numbers of shape {list(wanted)}"
            raise refuse("Generator", "logits", rule, f"{given.dtype.name} of {list(given.shape)}")
        if self._logits is None and self._search.length:
            way_out = "get_logits() or append_tokens() first"
            raise refuse("Generator", "logits", "there are no logits yet to replace", way_out=way_out)
        self._logits = np.array(given.reshape(wanted), np.float32)

    def get_input(self, name: str) -> Array:
        """An input of the model's last step."""
        read_name("Generator", "name", name)
        front = self._encoder or self._decoder.embedder
        own = front.fed.get(name) if front is not None else None
        return self._looked(self._decoder.input(name) if own is None else np.array(own), name, "input")

    def get_output(self, name: str) -> Array:
        """An output of the model's last step."""
        read_name("Generator", "name", name)
        front = self._encoder or self._decoder.embedder
        own = front.found.get(name) if front is not None else None
        return self._looked(self._decoder.output(name) if own is None else np.array(on_host(own)), name, "output")

    @staticmethod
    def _looked(found: Array | None, name: str, what: str) -> Array:
        if found is None:
            raise refuse("Generator", str(name), f"the last step had no {what} {show(name)}")
        return found

    # Going back, and on

    def rewind_to(self, new_length: int) -> None:
        """Forget the tokens after the first so many; the next token that is generated follows the one after these."""
        length, search = read_whole("Generator", "new_length", new_length), self._search
        if not 0 <= length <= search.length:
            raise refuse("Generator", "new_length", f"new_length must be 0 to {search.length}", str(length))
        if length == search.length:
            return
        if self._options.num_beams > 1:
            raise refuse("Generator", "new_length", "beams cannot go back")
        if length and self._options.batch_size > 1:
            raise refuse("Generator", "new_length", "several sequences go back to 0 alone", str(length))
        self._decoder.rewind(min(length, self._decoder.length))
        search.rewind(length)
        self._logits, self._is_rewound = None, length > 0
        if self._guide is not None:
            self._guide.reset()

    def snapshot_state(self) -> None:
        """Taken: what a rewind needs is kept anyway."""
        self._check_alive()

    def set_active_adapter(self, adapters: Any, adapter_name: str) -> None:
        """Let a loaded adapter's parameters take part."""
        if not isinstance(adapters, Adapters):
            raise refuse_type("Generator", "adapters", "Adapters", adapters)
        self._decoder.extra.update(adapters.parameters(adapter_name, self))

    def set_runtime_option(self, key: str, value: str) -> None:
        """Set an option of runs: terminate_session, "1" of which ends this generator and "0" lets it go on."""
        for name, given in (("key", key), ("value", value)):
            if not isinstance(given, str):
                raise refuse_type("Generator", name, "a string", given)
        if key == "terminate_session":
            self._is_ended = value == "1"

    def _check_alive(self) -> None:
        if self._is_ended:
            way_out = "set_runtime_option('terminate_session', '0') lets it go on"
            raise refuse("Generator", "terminate_session", "this generator was ended", way_out=way_out)

    def get_speculative_stats(self) -> dict[str, Any]:
        """What drafts have done: nothing, as a step makes one token here."""
        return {**dict.fromkeys(_COUNTS, 0), "formula_supported": False, "acceptance_rate": 0.0}

    def __len__(self) -> int:
        return self._search.length

    def __repr__(self) -> str:
        return f"Generator({self.model.type!r}, {self._options.rows} x {self._search.length} tokens)"
