"""The choice of next tokens: logits changed by penalties, then the likeliest token of each sequence, or one drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.onnxruntime.ort_errors import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.genai.search_options import SearchOptions

    Array = np.ndarray[Any, Any]

LOWEST = float(np.finfo(np.float32).min)
"""What a token's logit is where the token may not be chosen."""
_INFINITE = 1e30


class Draws:
    """Uniform numbers as C++'s std::mt19937 and std::generate_canonical make them: a seed draws what GenAI's does."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.MT19937()
        if seed >= 0:
            state: Any = np.random.RandomState(seed).get_state(legacy=False)  # seeded as std::mt19937 is
            self._bits.state = state

    def uniform(self) -> float:
        """A number from 0 to 1, of 64 bits."""
        low, high = int(self._bits.random_raw()), int(self._bits.random_raw())
        return min((low + high * 2.0**32) / 2.0**64, 1.0 - 2.0**-53)

    def pick(self, probabilities: Array) -> int:
        """A place, drawn by its probability."""
        if len(probabilities) < 2:
            return 0
        shares = probabilities.astype(np.float64)
        ends = np.cumsum(shares / shares.sum())
        ends[-1] = 1.0
        return int(np.searchsorted(ends, self.uniform(), "left"))


def kept_tokens(logits: Array, top_k: int, top_p: float, temperature: float) -> tuple[Array, Array]:
    """The tokens that may be drawn, the likeliest first, and their probabilities: the top k, and of these the top p."""
    count = min(top_k, len(logits)) if top_k > 1 else len(logits)
    if count < len(logits):
        places = np.argpartition(-logits, count - 1)[:count]
        places.sort()  # so that equal ones stand in the order of tokens
    else:
        places = np.arange(len(logits))
    places = places[np.argsort(-logits[places], kind="stable")]
    scaled = (logits[places] - logits[places[0]]) * np.float32(1 / temperature)
    shares = np.exp(scaled, dtype=np.float32)
    shares /= shares.sum()
    if 0 < top_p < 1:
        reached = np.cumsum(shares) >= np.float32(top_p)
        keep = int(np.argmax(reached)) + 1 if reached.any() else count
        places, shares = places[:keep], shares[:keep]
    return places, shares / shares.sum()


def penalise(logits: Array, tokens: Array, length: int, options: SearchOptions, ends: Sequence[int]) -> None:
    """Change a sequence's logits by what it holds: no end before min_length, repetitions made less likely."""
    if length < options.min_length:
        logits[list(ends)] = LOWEST
    if options.repetition_penalty != 1:
        seen = np.unique(tokens)
        seen = seen[(seen >= 0) & (seen < len(logits))]
        own = logits[seen]
        logits[seen] = np.where(own < 0, own * options.repetition_penalty, own / options.repetition_penalty)
    size = options.no_repeat_ngram_size
    if 0 < size <= len(tokens):
        grams = np.lib.stride_tricks.sliding_window_view(tokens, size)
        followers = grams[(grams[:, :-1] == tokens[len(tokens) - size + 1 :]).all(1), -1]
        logits[followers[(followers >= 0) & (followers < len(logits))]] = LOWEST


def check_most(most: Array) -> None:
    """Refuse rows of which no token can be chosen, by the largest logit of each."""
    if np.isnan(most).any():
        way_out = "FLOAT16 overflows beyond 65,504: a folder of fp32 shows whether that is the cause"
        raise refuse("Generator", "logits", "logits must be numbers", "NaN", way_out)
    if np.isneginf(most).any():
        rule = "there must be a token whose logit is above -inf"
        raise refuse("Generator", "logits", rule, "none", "leave a token in set_logits, or widen the guidance")


def check_logits(logits: Array, is_asked: Array) -> None:
    """Refuse rows of which no token can be chosen; infinity becomes a number that is above all others."""
    most = logits.max(1)[is_asked]
    check_most(most)
    if np.isposinf(most).any():
        np.minimum(logits, _INFINITE, out=logits)


class Search:
    """Sequences, each of whose next token is chosen by itself."""

    def __init__(self, options: SearchOptions, ends: Sequence[int], pad: int) -> None:
        self.options, self._ends, self._pad = options, list(ends), pad
        self.tokens = np.zeros((options.rows, options.max_length), np.int32)
        """The tokens of each sequence, of which so many count as `length` says."""
        self.length = 0
        self.next_tokens = np.zeros(options.rows, np.int32)
        """The tokens that were chosen last."""
        self.beams: Array | None = None
        """The sequences that each goes on from, where that is not its own."""
        self._has_ended = np.zeros(options.batch_size, np.bool_)
        self._draws = Draws(options.random_seed)

    @property
    def is_done(self) -> bool:
        """Whether every sequence has ended, or is as long as may be."""
        return bool(self._has_ended.all()) or self.length >= self.options.max_length

    @property
    def has_ended(self) -> bool:
        """Whether every sequence has come to a token that ends it."""
        return bool(self._has_ended.all())

    def append(self, tokens: Array) -> None:
        """Append tokens that somebody gives, [batch, n]; what had ended goes on."""
        new = tokens.shape[1]
        self.tokens[:, self.length : self.length + new] = np.repeat(tokens, self.options.num_beams, 0)
        self.length += new
        self.next_tokens = self.tokens[:, self.length - 1].copy()
        self._has_ended[:] = False

    def choose(self, logits: Array) -> None:
        """Choose the next tokens by logits, [rows, vocab_size], which are changed."""
        options = self.options
        check_logits(logits, ~self._has_ended)
        chosen = np.empty(options.rows, np.int32)
        for row, own in enumerate(logits):
            if self._has_ended[row]:
                chosen[row] = self._pad
                continue
            penalise(own, self.tokens[row, : self.length], self.length, options, self._ends)
            if options.samples:
                places, shares = kept_tokens(own, options.top_k, options.top_p, options.temperature)
                chosen[row] = places[self._draws.pick(shares)]
            else:
                chosen[row] = np.argmax(own)
            self._has_ended[row] = chosen[row] in self._ends
        self._take(chosen)

    @property
    def barred(self) -> list[int]:
        """The tokens that may not be chosen now: no end before min_length."""
        return self._ends if self.length < self.options.min_length else []

    def choose_likeliest(self, likeliest: Array, most: Array) -> None:
        """Choose the likeliest token of each sequence that is not barred, given the largest of all logits."""
        check_most(most[~self._has_ended])
        chosen = np.where(self._has_ended, self._pad, likeliest).astype(np.int32)
        self._has_ended |= np.isin(chosen, self._ends)
        self._take(chosen)

    def _take(self, chosen: Array) -> None:
        self.next_tokens = chosen
        if not self.has_ended:  # the token that ends the last sequence is in none, as GenAI has it
            self.tokens[:, self.length] = chosen
            self.length += 1

    def rewind(self, length: int) -> None:
        """Forget the tokens after the first so many."""
        self.next_tokens = self.tokens[:, length].copy() if length else np.zeros_like(self.next_tokens)
        self.length = length
        self._has_ended[:] = False

    def sequence(self, index: int) -> Array:
        """A sequence's tokens."""
        return self.tokens[index, : self.length].copy()

    @property
    def count(self) -> int:
        """The sequences that there are to be asked for."""
        return self.options.rows


class BeamSearch(Search):
    """Sequences of which several beams are kept for each prompt: the likeliest as wholes."""

    def __init__(self, options: SearchOptions, ends: Sequence[int], pad: int) -> None:
        super().__init__(options, ends, pad)
        self._scores = np.full((options.batch_size, options.num_beams), -1e9, np.float32)
        self._scores[:, 0] = 0  # beams begin alike: the first alone counts
        self._finished: list[list[tuple[float, Array]]] = [[] for _ in range(options.batch_size)]
        """The best sequences of each prompt that have ended, best first."""
        self._final: list[list[tuple[float, Array]]] | None = None

    def choose(self, logits: Array) -> None:
        """Go on with the likeliest beams of each prompt; a beam that ends is kept beside them."""
        options, beams = self.options, self.options.num_beams
        check_logits(logits, np.repeat(~self._has_ended, beams))
        for row, own in enumerate(logits):
            penalise(own, self.tokens[row, : self.length], self.length, options, self._ends)
        shifted = logits - logits.max(1, keepdims=True)
        scores = shifted - np.log(np.exp(shifted).sum(1, keepdims=True, dtype=np.float32))
        scores = scores.reshape(options.batch_size, beams, -1) + self._scores[:, :, None]
        vocabulary = scores.shape[-1]
        sources = np.zeros(options.rows, np.int64)
        chosen = np.full(options.rows, self._pad, np.int32)
        for batch in range(options.batch_size):
            first = batch * beams
            if self._has_ended[batch]:
                self._scores[batch] = 0
                sources[first : first + beams] = first
                continue
            flat = scores[batch].reshape(-1)
            best = np.argsort(-flat, kind="stable")[: 2 * beams]
            taken = 0
            for rank, place in enumerate(best):
                beam, token, score = int(place) // vocabulary, int(place) % vocabulary, float(flat[place])
                if token in self._ends:
                    if rank < beams:
                        self._keep(self._finished[batch], self.tokens[first + beam, : self.length], score)
                    continue
                sources[first + taken], chosen[first + taken] = first + beam, token
                self._scores[batch, taken] = score
                taken += 1
                if taken == beams:
                    break
            self._has_ended[batch] = self._is_finished(batch, float(flat[best[0]]))
        self.tokens = self.tokens[sources]
        self.tokens[:, self.length] = chosen
        self.length += 1
        self.next_tokens, self.beams, self._final = chosen, sources, None

    def _keep(self, finished: list[tuple[float, Array]], tokens: Array, score: float) -> None:
        score /= len(tokens) ** self.options.length_penalty
        if len(finished) == self.options.num_beams and score <= finished[-1][0]:
            return
        place = next((i for i, (other, _) in enumerate(finished) if score > other), len(finished))
        finished.insert(place, (score, tokens.copy()))
        del finished[self.options.num_beams :]

    def _is_finished(self, batch: int, best: float) -> bool:
        finished = self._finished[batch]
        if len(finished) < self.options.num_beams:
            return False
        return self.options.early_stopping or finished[-1][0] >= best / self.length**self.options.length_penalty

    def append(self, tokens: Array) -> None:
        """Append tokens that somebody gives."""
        super().append(tokens)
        self.beams = None

    def sequence(self, index: int) -> Array:
        """One of the best sequences: num_return_sequences of each prompt, best first."""
        if self._final is None:
            self._final = [list(finished) for finished in self._finished]
            for batch, own in enumerate(self._final):
                if not self._has_ended[batch]:
                    for beam in range(self.options.num_beams):
                        row = self.tokens[batch * self.options.num_beams + beam, : self.length]
                        self._keep(own, row, float(self._scores[batch, beam]))
        batch, rank = divmod(index, self.options.num_return_sequences)
        return self._final[batch][rank][1].copy()

    @property
    def count(self) -> int:
        """The sequences that there are to be asked for."""
        return self.options.batch_size * self.options.num_return_sequences
