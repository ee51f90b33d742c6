"""The flow unit chat: a toy language model, which counts the words of a short text."""

import json
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import modelflow

CONTEXT = 3
"""The number of words that determine the next word."""


def words_of(text):
    """Returns the words of a text, each with its space in front, and the ends of lines."""
    return re.findall(r"\n|[^\S\n]*\S+", text)


@dataclass
class Generation:
    """The state of a reply. ``text`` is the part that has not been sent."""

    words: list[str]
    prompt_tokens: int
    max_tokens: int
    temperature: float
    stops: list[str]
    text: str = ""

    def add(self, word):
        """Adds a word; returns the reason to finish, or None."""
        tokens = len(self.words) - self.prompt_tokens
        if word == "\n":
            return "stop"
        self.words.append(word)
        self.text += word if tokens else word.lstrip()
        if found := [self.text.index(stop) for stop in self.stops if stop in self.text]:
            self.text = self.text[: min(found)]
            return "stop"
        return "length" if tokens + 1 >= self.max_tokens else None

    def take(self):
        """Returns the text to send, without an end that may begin a stop text."""
        starts = [stop[:end] for stop in self.stops for end in range(1, len(stop))]
        held = max((len(start) for start in starts if self.text.endswith(start)), default=0)
        end = len(self.text) - held
        sent, self.text = self.text[:end], self.text[end:]
        return sent


class Chat(modelflow.FlowUnit):
    """Emits a mapping with a piece of text for each word. The last one also holds the usage."""

    def open(self, config):
        """Counts the words that follow the last `CONTEXT` words, and fewer of them."""
        self._max_tokens = config.max_tokens
        self._following = defaultdict(Counter)
        words = words_of(Path(__file__).with_name("text.txt").read_text())
        for position, word in enumerate(words):
            for length in range(CONTEXT + 1):
                self._following[tuple(words[max(position - length, 0) : position])][word] += 1

    def process(self, ctx):
        """Emits one piece, and asks for the next call. A cancelled request gets no further call."""
        generation = ctx.event
        if generation is None:
            words, given = words_of(ctx.input()[0].data), ctx.session["parameters"]
            generation = Generation(
                words,
                len(words),
                given.get("max_tokens", self._max_tokens),
                given.get("temperature", 1.0),
                json.loads(given.get("stop", "[]")),
            )
        reason = generation.add(self._choose(generation.words[-CONTEXT:], generation.temperature))
        if reason is None:
            if text := generation.take():
                ctx.emit([{"text": text}])
            ctx.send_event(generation)
            return
        usage = {
            "prompt_tokens": generation.prompt_tokens,
            "completion_tokens": len(generation.words) - generation.prompt_tokens,
        }
        ctx.emit([{"text": generation.text, "finish_reason": reason, **usage}])

    def _choose(self, last, temperature):
        """Returns a word. With temperature 0 it is the most frequent, and the first of equals."""
        keys = [tuple(last[start:]) for start in range(len(last) + 1)]
        counts = next(self._following[key] for key in keys if key in self._following)
        if not temperature:
            return max(counts, key=counts.__getitem__)
        weights = [count ** (1 / temperature) for count in counts.values()]
        return random.choices([*counts], weights)[0]
