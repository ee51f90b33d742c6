"""Finds the endpoint of a path."""

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

# The number of cached routes, and the longest cached route (method and path) in characters.
_MOST = 1024
_LONGEST = 256

Answerer = Callable[[HttpRequest, Mapping[str, str]], None]
"""A handler of requests, which answers now or later. It receives the named parts of the path."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Paths of one form, with their handlers.

    Attributes:
        pattern: The whole path must match this pattern, in upper or lower case. The handler
            receives the groups of the match.
        answer: The handlers by method.
        group: The group that a key must open, or None if no key is needed.
    """

    pattern: re.Pattern[str]
    answer: Mapping[str, Answerer]
    group: Group | None = Group.INFER

    def of(self, group: Group | None) -> "Endpoint":
        """Returns a copy of the endpoint with another key group."""
        return replace(self, group=group)


def endpoint(pattern: str, **answer: Answerer) -> Endpoint:
    """Returns an endpoint, for example ``endpoint("/v1/models/(?P<model>[^/:]+)", GET=status)``.

    The handler of GET also answers HEAD, which health probes send. The connection then omits the
    body.
    """
    if "GET" in answer:
        answer["HEAD"] = answer["GET"]
    return Endpoint(re.compile(pattern, re.IGNORECASE), answer)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a path: its route and its key group.

    Attributes:
        route: The path with placeholders, for example ``/v1/models/{name}:predict``, or None if no
            endpoint matches.
        group: The group that a key must open, or None if no key is needed.
    """

    route: str | None
    group: Group | None


class Route(NamedTuple):
    """The result of a route lookup.

    Attributes:
        answer: The handler, or an error reply if no endpoint matches.
        names: The named parts of the path.
        form: The form of the path.
    """

    answer: Answerer | Reply
    names: Mapping[str, str]
    form: Form


class Router:
    """The table of endpoints, which finds the handler of a request."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Stores the endpoints. The first match that supports the method answers."""
        self._endpoints = tuple(endpoints)
        # Clients use few different paths, so the cache saves most regex matches.
        self._find_again = lru_cache(_MOST)(self._find)

    def find(self, method: str, target: str) -> Route:
        """Returns the handler of a request, or a 404 or 405 reply.

        Args:
            method: ``POST``, ...
            target: Path and query, as the client sent them.
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
    """Returns the path with ``{name}`` in place of each matched group."""
    path, parts, start = found.string, [], 0
    for name, number in found.re.groupindex.items():
        if found.group(number) is not None:
            parts += [path[start : found.start(number)].lower(), f"{{{name}}}"]
            start = found.end(number)
    return "".join((*parts, path[start:].lower()))
