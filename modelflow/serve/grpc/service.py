"""What there is to call: a service's methods, as its descriptor lists them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.keys import Group
from modelflow.wire.problem import Code, Problem
from modelflow.wire.proto import Protocol

__all__ = ["Answerer", "Method", "Service"]

Answerer = Callable[[Rpc, Any], None]
"""Answers a message, now or later."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service.

    Attributes:
        name: Its name.
        path: What a call names: ``/SERVICE/METHOD``.
        group: What a key must open to call it; None: no key is needed.
        is_stream_in: Any number of messages come in one call.
        is_stream_out: Any number of answers go out.
        parse: Gives the message that bytes hold; raises `Problem`.
        answer: Answers one.
        gather: Takes one that came whole, to be answered with others; its message is its `body`.
            None: ``answer`` does.
    """

    name: str
    path: str
    group: Group | None
    is_stream_in: bool
    is_stream_out: bool
    parse: Callable[[bytes], Any]
    answer: Answerer
    gather: Callable[[Rpc], None] | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a protocol.

    Attributes:
        name: Its full name.
        protocol: Where it is described.
        answers: Who answers, by the method's name.
        missing: What is said of the methods that nobody answers.
        groups: What a key must open to call a method (None: nothing), where it is not
            `Group.INFER`.
        gathers: What takes the small messages of a method, in the place of who answers.
    """

    name: str
    protocol: Protocol
    answers: Mapping[str, Answerer]
    missing: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Group | None] = field(default_factory=dict)
    gathers: Mapping[str, Callable[[Rpc], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        described = self.protocol.methods(self.name).keys()
        if (named := self.answers.keys() | self.missing.keys()) != described:
            message = f"{self.name}: got methods {sorted(named)}; expected {sorted(described)}"
            raise ValueError(message)

    def methods(self) -> Iterator[Method]:
        """Gives all methods that the descriptor lists."""
        for name, descriptor in self.protocol.methods(self.name).items():
            yield Method(
                name,
                f"/{self.name}/{name}",
                self.groups.get(name, Group.INFER),
                descriptor.client_streaming,
                descriptor.server_streaming,
                partial(self.protocol.parse, descriptor.input_type.full_name),
                self.answers.get(name) or self._refuser(name),
                self.gathers.get(name),
            )

    def _refuser(self, name: str) -> Answerer:
        def refuse(rpc: Rpc, _: Any) -> None:
            message = f"{self.name}/{name} is not there: {self.missing[name]}"
            rpc.refuse(Problem(message, Code.UNIMPLEMENTED))

        return refuse
