"""Which endpoint a path belongs to."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import unquote

from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.keys import Group

__all__ = ["Answerer", "Endpoint", "Route", "Router", "endpoint"]

# Routes that are kept, and the longest target of one.
_MOST = 1024
_LONGEST = 256

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
    """Makes an endpoint: ``endpoint("/v1/models/(?P<model>[^/:]+)", GET=status)``.

    What answers GET answers HEAD, which probes send: the connection leaves the body out.
    """
    if "GET" in answer:
        answer["HEAD"] = answer["GET"]
    return Endpoint(re.compile(pattern, re.IGNORECASE), answer)


Route = tuple[Answerer, Mapping[str, str]]
"""Who answers a request, and what its path names."""


class Router:
    """Finds who answers a request. For the server's thread alone."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Takes the endpoints; of several that match the first that knows the method answers."""
        self._endpoints = tuple(endpoints)
        # Clients ask for the same again and again.
        self._found: dict[tuple[str, str], Route] = {}

    def find(self, method: str, target: str) -> Route | Reply:
        """Returns who answers a request, or the answer that there is nobody who does.

        Args:
            method: ``POST``, ...
            target: Path and query, as sent.
        """
        route = self._found.get((method, target))
        if route is not None:
            return route
        found = _find(self._endpoints, method, target.partition("?")[0])
        if not isinstance(found, Reply) and len(target) <= _LONGEST:
            if len(self._found) >= _MOST:
                self._found.clear()
            self._found[method, target] = found
        return found

    def group_of(self, path: str) -> Group | None:
        """Returns what a key must open for a path, be it nobody's; None: nothing."""
        groups = (one.group for one in self._endpoints if one.pattern.fullmatch(path))
        return next(groups, Group.INFER)


def _find(endpoints: Sequence[Endpoint], method: str, path: str) -> Route | Reply:
    allowed: dict[str, None] = {}
    for one in endpoints:
        found = one.pattern.fullmatch(path)
        if found is None:
            continue
        answer = one.answer.get(method)
        if answer is not None:
            named = found.groupdict().items()
            return answer, {key: unquote(value) for key, value in named if value}
        allowed |= dict.fromkeys(one.answer)
    if not allowed:
        return Reply(HTTPStatus.NOT_FOUND, b"", {})
    return Reply(HTTPStatus.METHOD_NOT_ALLOWED, b"", {"allow": ", ".join(allowed)})
