"""Clients of a session of a drawn graph, which send, read and cancel on their own threads."""

import threading
from dataclasses import dataclass

from modelflow.errors import Cancelled, EndOfStream, StreamClosed
from tests.properties.tokens import plain

LONG = 30.0  # seconds until a hanging thread is given up

FAR = 3600.0  # seconds
PAST = -1.0


@dataclass(frozen=True)
class Usage:
    """The use of a session: deadlines by place, the time of cancellation, the way to read."""

    late: frozenset[int] = frozenset()
    far: frozenset[int] = frozenset()
    cancel_after: int | None = None
    reads: str = "waiting"  # or "called" (by callbacks), or "raising" (by callbacks that raise)

    def deadline(self, place):
        return PAST if place in self.late else FAR if place in self.far else None


class Client:
    """Uses a session from threads: one thread sends, and a thread or callbacks read each output.

    ``columns``: the values to send, by input, or None if a source sends. ``on_sent`` is called with
    the number of sent rows, before each row and after the last.
    """

    def __init__(self, stream, columns, usage, on_sent=lambda count: None):
        self.stream = stream
        self.columns = columns
        self.usage = usage
        self.on_sent = on_sent
        self.outputs = {name: [] for name in stream.outputs}
        self.failures = []
        self.is_cut_off = False  # whether the flow ended before the session
        self._has_ended = {name: threading.Event() for name in stream.outputs}
        jobs = [lambda name=name: self.read(name) for name in self.outputs]
        if columns is not None:
            jobs.append(self._send)
        self.threads = [
            threading.Thread(target=self._guarded, args=(job,), name=f"modelflow/test/{n}")
            for n, job in enumerate(jobs)
        ]

    def start(self):
        for thread in self.threads:
            thread.start()

    def _guarded(self, job):
        try:
            job()
        except Cancelled:
            if self.usage.cancel_after is None:
                self.failures.append("was cancelled by somebody else")
        except StreamClosed:
            self.is_cut_off = True
        except Exception as error:  # noqa: BLE001 - whatever it is, the test tells it
            self.failures.append(repr(error))

    # -- sending --------------------------------------------------------------------------------

    def _send(self):
        try:
            count = len(next(iter(self.columns.values())))
            for place in range(count):
                self.on_sent(place)
                if place == self.usage.cancel_after:
                    self.stream.cancel()
                self.send(place)
            self.on_sent(count)
            self.stream.close_input()
            if self.usage.cancel_after is not None:
                self.stream.cancel()
        finally:
            self.on_sent(None)

    def send(self, place):
        deadline = self.usage.deadline(place)
        for port, values in self.columns.items():
            self.stream.send(port, values[place], timeout=LONG, deadline=deadline)

    # -- reading --------------------------------------------------------------------------------

    def read(self, name):
        if self.usage.reads == "waiting":
            self._take_all(name, LONG)
            return
        self._called(name)
        if not self._has_ended[name].wait(LONG):
            self.failures.append(f"no callback came for {name}")

    def _take_all(self, name, timeout):
        try:
            while True:
                self.outputs[name].append(
                    plain(self.stream.recv(name, timeout=timeout, errors="return"))
                )
        except EndOfStream:
            self._has_ended[name].set()

    def _called(self, name):
        """Takes the available results, and registers a callback for more."""
        try:
            self._take_all(name, 0)
        except TimeoutError:
            results = self.stream._session.results[name]
            results.on_ready(lambda: self._called(name))
            if self.usage.reads == "raising":
                results.on_ready(lambda: 1 / 0)
        except (Cancelled, StreamClosed):
            self._has_ended[name].set()
            raise  # an exception in a callback is logged, and in the first read recorded

    # -- the end --------------------------------------------------------------------------------

    def join(self):
        for thread in self.threads:
            thread.join()
        assert self.failures == []
        assert self.stream.wait(LONG), "the session has not ended"

    def check(self, expected):
        """Compares the results; if the flow ended early, the beginning of the results."""
        count = self.stream._session.progress.error_count
        found = self.outputs, self._sinks(expected), count
        if not self.is_cut_off:
            assert found == (expected.outputs, expected.sinks, expected.errors)
            return
        for name, values in self.outputs.items():
            assert values == expected.outputs[name][: len(values)]
        for name, values in found[1].items():
            assert values == expected.sinks[name][: len(values)]
        assert found[2] <= expected.errors

    def _sinks(self, expected):
        return {name: self.stream.context.get(name, []) for name in expected.sinks}
