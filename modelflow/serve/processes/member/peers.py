"""Requests to all replicas, sent through the supervisor."""

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.interfaces import GroupCounts, ReplicaGroup, Told
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.serve.options import UNTUNED, Tuning
from modelflow.serve.processes.control_channel import (
    ControlChannel,
    LongFrameError,
    Message,
)
from modelflow.serve.requests.status import problem_of
from modelflow.wire.problem import Code, Problem
from modelflow.wire.proto import TF_SERVING


class Peers:
    """The group of all replicas, including this process. For the server's thread, after `begin`."""

    def __init__(self, channel: ControlChannel, own: ReplicaGroup) -> None:
        """Stores the channel to the supervisor, and the group of this process alone."""
        self._channel = channel
        self._own = own
        self._loop_queue: LoopQueue | None = None

    def begin(self, loop_queue: LoopQueue) -> None:
        """Stores the queue of the server's thread."""
        self._loop_queue = loop_queue

    # -- requests of a client to all replicas -----------------------------------------------------

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Requests the counts of all replicas."""

        def on_answer(answer: Message) -> None:
            snapshots = [ModelSnapshot.read(one) for one in answer["snapshots"]]
            told(GroupCounts(snapshots, answer["up"], answer["count"], answer["deaths"]))

        self._ask({"what": "snapshots"}, on_answer)

    def load(self, name: str, told: Told, tuning: Tuning = UNTUNED) -> None:
        """Loads a model in all replicas."""
        message = {"what": "load", "name": name, "tuning": dict(tuning)}
        self._ask(message, partial(_notify_change, told))

    def unload(self, name: str, told: Told) -> None:
        """Unloads a model in all replicas."""
        self._ask({"what": "unload", "name": name}, partial(_notify_change, told))

    def share(self, change: Mapping[str, Any], told: Told) -> None:
        """Registers or removes shared memory in all processes that take requests."""
        self._ask({"what": "share", "change": change}, partial(_notify_change, told))

    def configure(self, config: bytes, told: Told) -> None:
        """Serves the models of a ``ReloadConfigRequest`` in all replicas."""
        names = _names_of(config)
        text = base64.b64encode(config).decode()
        message = {"what": "configure", "config": text, "names": names}
        self._ask(message, partial(_notify_change, told))

    def _ask(self, message: Message, told: Callable[[Message], None]) -> None:
        loop_queue = self._loop_queue
        assert loop_queue is not None  # requests start after `begin`
        try:
            self._channel.ask(message, lambda answer: loop_queue.post(partial(told, answer)))
        except LongFrameError as error:
            raise Problem(str(error), Code.RESOURCE_EXHAUSTED) from error

    # -- requests of the supervisor to this replica -----------------------------------------------

    def hear(self, message: Message) -> None:
        """Executes a request of the supervisor. Called on the channel's reading thread."""
        assert self._loop_queue is not None  # `begin` was called
        self._loop_queue.post(partial(self._do, message))

    def _do(self, message: Message) -> None:
        number = message["ask"]

        def on_change(error: Exception | None) -> None:
            self._channel.say({"answer": number, "problem": _document(error)})

        def on_counts(counts: GroupCounts) -> None:
            snapshots = [snapshot.document() for snapshot in counts.snapshots]
            self._channel.say({"answer": number, "snapshots": snapshots})

        try:
            if message["what"] == "pulse":
                self._channel.say({"answer": number})
            elif message["what"] == "snapshots":
                self._own.counts(on_counts)
            elif message["what"] == "load":
                self._own.load(message["name"], on_change, message["tuning"])
            elif message["what"] == "unload":
                self._own.unload(message["name"], on_change)
            elif message["what"] == "share":
                self._own.share(message["change"], on_change)
            else:
                self._own.configure(base64.b64decode(message["config"]), on_change)
        except Problem as problem:
            on_change(problem)


def _names_of(config: bytes) -> list[str]:
    """Returns the model names of a ``ReloadConfigRequest``.

    Each replica checks the request itself.
    """
    found = TF_SERVING["tensorflow.serving.ReloadConfigRequest"].FromString(config).config
    return [model.name for model in found.model_config_list.config]


def _notify_change(told: Told, answer: Message) -> None:
    found = answer["problem"]
    told(None if found is None else Problem(found["text"], Code(found["code"])))


def _document(error: Exception | None) -> Message | None:
    if error is None:
        return None
    problem = problem_of(error)
    return {"text": str(problem), "code": str(problem.code)}
