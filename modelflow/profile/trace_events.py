"""Trace events of a recording, and the file that Perfetto and chrome://tracing open.

Events are JSON objects in Chrome's trace format ("Trace Event Format", 2016). The file is an array
with one event a line, whose end readers do not require. A compressed file consists of several gzip
files: each `flush` writes a complete one, because Perfetto refuses a truncated one.

The flow is process 1, with one track per worker. One track per node would lose batches that
overlap. Requests are process 2. Each request has its own bar, with its nodes and waits inside.
"""

import gzip
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from modelflow.runtime.workers.trace_buffer import BLOCKED, Slice

if TYPE_CHECKING:
    from modelflow.runtime.session.watcher import Part

_LEVEL = 6  # the default compression of zlib


class FollowedRequest(NamedTuple):
    """A request that was traced through the graph.

    Attributes:
        session: Its session.
        began: The flow's clock at its start, in seconds.
        ended: The clock at its end, or at the end of the recording.
        parts: Its share of each call of a unit, in any order.
        is_over: Whether the request was answered or cancelled.
    """

    session: str
    began: float
    ended: float
    parts: "Sequence[Part]"
    is_over: bool


class TraceFile:
    """Writes events to a file; for one thread."""

    def __init__(self, path: Path, *, is_packed: bool) -> None:
        """Creates or overwrites the file.

        Args:
            path: The path of the file.
            is_packed: Whether to compress the file.

        Raises:
            OSError: the file cannot be written.
        """
        self._file = path.open("wb")
        self._is_packed = is_packed
        self._lines: list[str] = []
        self._before = "[\n"

    def write(self, *events: str) -> None:
        """Adds events: JSON objects, each in one line."""
        self._lines.extend(events)

    def flush(self) -> None:
        """Writes the added events to the system, which keeps them if the process is killed."""
        if not self._lines:
            return
        data = (self._before + ",\n".join(self._lines)).encode()
        self._lines.clear()
        self._before = ",\n"
        self._put(data)

    def _put(self, data: bytes) -> None:
        self._file.write(gzip.compress(data, _LEVEL, mtime=0) if self._is_packed else data)
        self._file.flush()

    def close(self) -> None:
        """Ends the array and closes the file."""
        if self._file.closed:
            return
        try:
            self.flush()
            end = b"\n]\n" if self._before == ",\n" else b"[]\n"
            self._put(end)
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        self.close()


_FLOW, _REQUESTS = 1, 2


class TraceEvents:
    """Formats the lines of a trace, with its tracks and its start time."""

    def __init__(self, name: str, tracks: Sequence[str], begin: float) -> None:
        """Begins a trace.

        Args:
            name: The name of the flow.
            tracks: Its workers, in display order.
            begin: The clock's time from which all times are counted.
        """
        self._name = name
        self.begin = begin
        self._tracks = {track: number for number, track in enumerate(tracks, 1)}
        self._numbers = itertools.count(1)
        self._heads: dict[tuple[str, str], str] = {}
        self._session = "", '""'  # the last session, and its JSON text

    def head(self) -> Iterator[str]:
        """Yields the names of the processes and tracks."""
        for process, name in ((_FLOW, f"flow {self._name}"), (_REQUESTS, "sampled requests")):
            yield _meta("process_name", process, 0, name=name)
            yield _meta("process_sort_index", process, 0, sort_index=process)
        for track, number in self._tracks.items():
            yield from _name(track, number)

    def track(self, name: str) -> Iterator[str]:
        """Yields the name of a worker's track, if the worker is new."""
        if name not in self._tracks:
            self._tracks[name] = number = len(self._tracks) + 1
            yield from _name(name, number)

    def slice(self, track: str, one: Slice) -> str:
        """Returns the event of a worker's call or wait."""
        head = self._heads.get((track, one.name))
        if head is None:
            head = self._heads[track, one.name] = self._head(track, one.name)
        if one.session != self._session[0]:
            self._session = one.session, json.dumps(one.session)
        start, args = one.start if one.start > self.begin else self.begin, ""
        if one.name != BLOCKED:
            waited = f',"waited_us":{(one.start - one.arrived) * 1e6:.1f}' if one.arrived else ""
            failed = f',"errors":{one.errors}' if one.errors else ""
            args = (
                f',"args":{{"rows":{one.rows}{waited}{failed},"sessions":{one.sessions},'
                f'"session":{self._session[1]}}}'
            )
        begun, seconds = start - self.begin, one.end - start
        return f'{head}"ts":{begun * 1e6:.3f},"dur":{seconds * 1e6:.3f}{args}}}'

    def _head(self, track: str, name: str) -> str:
        """Returns the common beginning of the slices of one name on one track."""
        return (
            f'{{"ph":"X","cat":"{"wait" if name == BLOCKED else "call"}",'
            f'"name":{json.dumps(name)},"pid":{_FLOW},"tid":{self._tracks[track]},'
        )

    def counter(self, name: str, now: float, values: Mapping[str, int]) -> str:
        """Returns an event with counter values at a moment."""
        return self._event("C", now, name=name, pid=_FLOW, args=values)

    def instant(self, name: str, now: float, args: Mapping[str, str]) -> str:
        """Returns an event that concerns the whole flow."""
        return self._event("i", now, s="p", name=name, pid=_FLOW, tid=0, args=args)

    def request(self, request: FollowedRequest) -> Iterator[str]:
        """Yields the bar of a request, the inner bars of its waits and calls, and arrows.

        Calls that overlap (branches, parts of an expanded stream) have separate bars.
        """
        number = next(self._numbers)
        ordered = sorted(request.parts, key=lambda part: part.start)
        yield from self._arrows(number, ordered)
        args = {"session": request.session, **({} if request.is_over else {"is_over": False})}
        yield self._bar("b", f"{number}", f"request {request.session}", request.began, args)
        free = request.began
        for place, part in enumerate(ordered):
            is_beside = part.start < free
            own = f"{number}.{place}" if is_beside else f"{number}"
            if not is_beside and part.start > free:
                yield self._bar("b", own, "wait", free)
                yield self._bar("e", own, "wait", part.start)
            what: dict[str, object] = {"rows": part.rows, "batch": part.batch_size}
            if part.error is not None:
                what["error"] = str(part.error)
            yield self._bar("b", own, part.node, part.start, what)
            yield self._bar("e", own, part.node, part.end)
            free = max(free, part.end)
        if request.ended > free and ordered:
            yield self._bar("b", f"{number}", "wait", free)
            yield self._bar("e", f"{number}", "wait", request.ended)
        end = max(request.ended, free)
        yield self._bar("e", f"{number}", f"request {request.session}", end)

    def _arrows(self, number: int, parts: Sequence["Part"]) -> Iterator[str]:
        if len(parts) < 2:
            return
        for place, part in enumerate(parts):
            phase = "s" if not place else "f" if place == len(parts) - 1 else "t"
            what = {"bp": "e", "cat": "request", "name": "request", "id": number}
            track = self._tracks[part.track]
            yield self._event(phase, part.start, **what, pid=_FLOW, tid=track)

    def _bar(
        self, phase: str, key: str, name: str, when: float, args: Mapping[str, object] | None = None
    ) -> str:
        what = {"cat": "request", "id2": {"local": key}, "name": name}
        more = {"args": args} if args else {}
        return self._event(phase, when, **what, pid=_REQUESTS, tid=0, **more)

    def _event(self, phase: str, when: float, **what: object) -> str:
        microseconds = round(max(0.0, when - self.begin) * 1e6, 3)
        return json.dumps({"ph": phase, **what, "ts": microseconds})


def _name(track: str, number: int) -> Iterator[str]:
    yield _meta("thread_name", _FLOW, number, name=track)
    yield _meta("thread_sort_index", _FLOW, number, sort_index=number)


def _meta(what: str, process: int, track: int, **args: object) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": process, "tid": track, "args": args})
