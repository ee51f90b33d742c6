"""``/dashboard``: a live view of the served models in the browser.

The page shows one model at a time. The page itself needs no key, because it contains no data. Its
events need a key for the group ``metrics``.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest, StreamingReply, StreamingResponse
from modelflow.serve.access.keys import Group
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.interfaces import GroupCounts, ReplicaGroup
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.serve.repository.models import Models
from modelflow.studio.history import SAMPLE_SECONDS, History
from modelflow.studio.moments import Moments, event
from modelflow.studio.pages import PAGES, STREAM, page_reply
from modelflow.wire.problem import shorten

# Seconds between two updates of a page.
_EVERY = 0.5
_FILES = "|".join(map(re.escape, PAGES))
# No HEAD: the reply to GET is an endless stream.
_EVENTS = re.compile("/dashboard/events(?:/(?P<name>[^/]+))?", re.IGNORECASE)


class Dashboard:
    """The endpoints of the dashboard. Call the methods on the server's thread.

    Snapshots are taken twice a second while a page is open, and else once in ten seconds.
    """

    def __init__(self, replica_group: ReplicaGroup, models: Models) -> None:
        """Stores the group that collects counts, and the models."""
        self._group = replica_group
        self._models = models
        self._watches: set[_Watch] = set()
        self._histories: dict[str, History] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint("/dashboard", GET=_move).of(None),
            endpoint(f"/dashboard/(?P<file>{_FILES})", GET=_page).of(None),
            Endpoint(_EVENTS, {"GET": self._watch}, Group.METRICS),
        )

    def start(self) -> None:
        """Starts the history of the models."""
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_SECONDS, self.start)
        self._group.counts(self._note)

    def _note(self, counts: GroupCounts) -> None:
        """Adds the counts to the histories, and forgets models that are no longer served."""
        newest = {model.name: model for model in sorted(counts.snapshots, key=_version_of)}
        self._histories = {name: self._histories.get(name) or History() for name in newest}
        for name, model in newest.items():
            self._histories[name].add(model.snapshot, model.version)

    def _history(self, model: ModelSnapshot) -> History:
        """Returns the history of a shown model, with its present state added."""
        history = self._histories.setdefault(model.name, History())
        history.add(model.snapshot, model.version)
        return history

    def end(self) -> None:
        """Notifies every open page that the server stops."""
        if self._timer is not None:
            self._timer.cancel()
        for watch in tuple(self._watches):
            watch.end()

    def _watch(self, http_request: HttpRequest, names: Mapping[str, str]) -> None:
        watch = _Watch(
            self._group, self._models, names.get("name"), self._history, self._watches.discard
        )
        self._watches.add(watch)
        http_request.answer(StreamingReply(200, watch.begin, STREAM))


def _page(http_request: HttpRequest, names: Mapping[str, str]) -> None:
    http_request.answer(page_reply(PAGES, names.get("file", "").lower()))


def _move(http_request: HttpRequest, _: Mapping[str, str]) -> None:
    http_request.answer(Reply(HTTPStatus.PERMANENT_REDIRECT, b"", {"location": "/dashboard/"}))


class _Watch:
    """The event stream of an open page, with two updates of a model per second."""

    def __init__(
        self,
        replica_group: ReplicaGroup,
        models: Models,
        name: str | None,
        history: Callable[[ModelSnapshot], History],
        forget: Callable[["_Watch"], object],
    ) -> None:
        """Stores the parts of the stream.

        Args:
            replica_group: The group that collects counts.
            models: The served models.
            name: The shown model, or None for the first model.
            history: Returns the history of a model, with its present state added.
            forget: Called with this object when the stream ends.
        """
        self._group = replica_group
        self._models = models
        self._name = name
        self._history = history
        self._forget = forget
        self._body_stream: StreamingResponse | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._known = b""  # the last event about all models
        self._shown: tuple[str, int] | None = None
        self._picture = b""
        self._told: str | None = None  # the model whose history the page has
        self._moments = Moments()

    def begin(self, body_stream: StreamingResponse) -> None:
        """Starts the updates."""
        self._body_stream = body_stream
        body_stream.on_gone = self._on_cancel
        self._look()

    def end(self) -> None:
        """Sends the ``end`` event, and ends the stream."""
        body_stream = self._body_stream
        self._on_cancel()
        if body_stream is not None:
            body_stream.send(event("end", {}))
            body_stream.end()

    def _on_cancel(self) -> None:
        self._body_stream = None
        if self._timer is not None:
            self._timer.cancel()
        self._forget(self)

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._look)
        if self._body_stream is not None and self._body_stream.has_room:
            self._group.counts(self._notify)

    def _notify(self, counts: GroupCounts) -> None:
        if self._body_stream is None:  # the page was closed during the collection
            return
        names = sorted({model.name for model in counts.snapshots})
        models = event("models", {"served": names, "unready": self._models.unready()})
        is_known, self._known = self._known == models, models
        parts = [] if is_known else [models]
        model = self._find_model(counts, names)
        if model is None:
            what = "nothing" if self._name is None else f"no model {shorten(self._name)}"
            parts.append(event("lost", f"{what} is served"))
        else:
            parts += self._list_changes(model)
        self._body_stream.send(b"".join(parts))

    def _find_model(self, counts: GroupCounts, names: list[str]) -> ModelSnapshot | None:
        """Returns the newest version of the shown model, or None if not served."""
        name = self._name if self._name is not None else names[0] if names else None
        found = [model for model in counts.snapshots if model.name == name]
        return max(found, key=_version_of, default=None)

    def _list_changes(self, model: ModelSnapshot) -> list[bytes]:
        shown_now = model.name, model.version
        if shown_now != self._shown:
            self._shown, self._moments = shown_now, Moments()
        self._moments.add(model.snapshot)
        history = self._history(model)
        known, self._picture = self._picture, self._moments.picture + history.changes
        told, self._told = self._told, model.name
        return [
            b"" if told == model.name else history.event(),
            b"" if known == self._picture else self._picture,
            self._moments.frame,
        ]


def _version_of(model: ModelSnapshot) -> int:
    return model.version
