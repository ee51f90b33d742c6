"""Which endpoint a path belongs to."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.keys import Group

# Routes that are kept, and the longest target of one.
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
        answer: Who it is.
        names: What the path names.
    """

    answer: Answerer
    names: Mapping[str, str]


class Router:
    """Finds who answers a request. For the server's thread alone."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Takes the endpoints; of several that match the first that knows the method answers."""
        self._endpoints = tuple(endpoints)
        # Clients ask for the same again and again.
        self._found: dict[tuple[str, str], Route] = {}
        self._forms: dict[str, Form] = {}

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

    def form_of(self, path: str) -> Form:
        """Returns what a path is like, be it nobody's."""
        form = self._forms.get(path)
        if form is not None:
            return form
        form = Form(None, Group.INFER)
        for one in self._endpoints:
            found = one.pattern.fullmatch(path)
            if found is not None:
                form = Form(_route(found), one.group)
                break
        if len(path) <= _LONGEST:
            if len(self._forms) >= _MOST:
                self._forms.clear()
            self._forms[path] = form
        return form


def _route(found: re.Match[str]) -> str:
    """The path with ``{name}`` in the place of what each group has found."""
    path, parts, start = found.string, [], 0
    for name, number in found.re.groupindex.items():
        if found.group(number) is not None:
            parts += [path[start : found.start(number)].lower(), f"{{{name}}}"]
            start = found.end(number)
    return "".join((*parts, path[start:].lower()))


def _find(endpoints: Sequence[Endpoint], method: str, path: str) -> Route | Reply:
    allowed: dict[str, None] = {}
    for one in endpoints:
        found = one.pattern.fullmatch(path)
        if found is None:
            continue
        answer = one.answer.get(method)
        if answer is not None:
            named = found.groupdict().items()
            names = {key: unquote(value) for key, value in named if value}
            return Route(answer, names)
        allowed |= dict.fromkeys(one.answer)
    if not allowed:
        return Reply(HTTPStatus.NOT_FOUND, b"", {})
    return Reply(HTTPStatus.METHOD_NOT_ALLOWED, b"", {"allow": ", ".join(allowed)})
