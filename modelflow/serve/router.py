"""Which endpoint a path belongs to."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import unquote

from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.keys import Group

__all__ = ["Answerer", "Endpoint", "endpoint", "find", "group_of"]

Answerer = Callable[[Exchange, Mapping[str, str]], None]
"""Answers a request, now or later; given what its path names."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Paths of one form, and who answers there.

    Attributes:
        pattern: What the path must match, in full and whatever the case; its groups are given to
            whoever answers.
        answer: By method.
        group: What a key must open to ask there; None: no key is needed.
    """

    pattern: re.Pattern[str]
    answer: Mapping[str, Answerer]
    group: Group | None = Group.INFER

    def of(self, group: Group | None) -> "Endpoint":
        """Returns the same, for other keys."""
        return replace(self, group=group)


def endpoint(pattern: str, **answer: Answerer) -> Endpoint:
    """Makes an endpoint: ``endpoint("/v1/models/(?P<model>[^/:]+)", GET=status)``."""
    return Endpoint(re.compile(pattern, re.IGNORECASE), answer)


def find(endpoints: tuple[Endpoint, ...], exchange: Exchange) -> Callable[[], None] | Reply:
    """Returns what answers a request, or the answer that there is nobody who does."""
    allowed: dict[str, None] = {}
    for one in endpoints:
        found = one.pattern.fullmatch(exchange.path)
        if found is None:
            continue
        answer = one.answer.get(exchange.method)
        if answer is not None:
            names = {key: unquote(value) for key, value in found.groupdict().items() if value}
            return lambda: answer(exchange, names)
        allowed |= dict.fromkeys(one.answer)
    if not allowed:
        return Reply(HTTPStatus.NOT_FOUND, b"", {})
    return Reply(HTTPStatus.METHOD_NOT_ALLOWED, b"", {"allow": ", ".join(allowed)})


def group_of(endpoints: tuple[Endpoint, ...], path: str) -> Group | None:
    """Returns what a key must open for a path, also for one that there is not; None: nothing."""
    groups = (one.group for one in endpoints if one.pattern.fullmatch(path))
    return next(groups, Group.INFER)
