"""Which endpoint a path belongs to."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.keys import Group

# Routes that are kept, and the longest of them: method and path.
_MOST = 1024
_LONGEST = 256

Answerer = Callable[[HttpRequest, Mapping[str, str]], None]
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


@dataclass(frozen=True, slots=True)
class Form:
    """What a path is like.

    Attributes:
        route: The path with a name for whatever it names: ``/v1/models/{name}:predict``; None:
            nobody answers there.
        group: What a key must open to ask there; None: no key is needed.
    """

    route: str | None
    group: Group | None


class Route(NamedTuple):
    """Who answers a request.

    Attributes:
        answer: Who it is; or the answer, where nobody does.
        names: What the path names.
        form: What the path is like.
    """

    answer: Answerer | Reply
    names: Mapping[str, str]
    form: Form


class Router:
    """Finds who answers a request."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Takes the endpoints; of several that match the first that knows the method answers."""
        self._endpoints = tuple(endpoints)
        # Clients ask for the same again and again.
        self._find_again = lru_cache(_MOST)(self._find)

    def find(self, method: str, target: str) -> Route:
        """Returns who answers a request, or the answer that there is nobody who does.

        Args:
            method: ``POST``, ...
            target: Path and query, as sent.
        """
        path = target.partition("?")[0]
        find = self._find_again if len(method) + len(path) <= _LONGEST else self._find
        return find(method, path)

    def _find(self, method: str, path: str) -> Route:
        found = [(one, one.pattern.fullmatch(path)) for one in self._endpoints]
        matches = [(one, match) for one, match in found if match is not None]
        if not matches:
            return Route(Reply(HTTPStatus.NOT_FOUND, b"", {}), {}, Form(None, Group.INFER))
        form = Form(_route(matches[0][1]), matches[0][0].group)
        for one, match in matches:
            if (answer := one.answer.get(method)) is not None:
                named = match.groupdict().items()
                names = {key: unquote(value) for key, value in named if value}
                return Route(answer, names, form)
        allowed = ", ".join(dict.fromkeys(name for one, _ in matches for name in one.answer))
        return Route(Reply(HTTPStatus.METHOD_NOT_ALLOWED, b"", {"allow": allowed}), {}, form)


def _route(found: re.Match[str]) -> str:
    """The path with ``{name}`` in the place of what each group has found."""
    path, parts, start = found.string, [], 0
    for name, number in found.re.groupindex.items():
        if found.group(number) is not None:
            parts += [path[start : found.start(number)].lower(), f"{{{name}}}"]
            start = found.end(number)
    return "".join((*parts, path[start:].lower()))
