"""Where data leaves the graph: a graph output, or a node that nothing follows."""

from collections.abc import Mapping, Sequence

from modelflow.runtime.segment import Segment
from modelflow.runtime.session import Session

__all__ = ["OutputTerminal", "SinkTerminal"]


class OutputTerminal:
    """Hands what arrives at a graph output to its session; never full (see `Entrance`)."""

    def __init__(self, output: str, exits: Mapping[str, int]) -> None:
        """Takes the output's name and, by origin, its place among the session's exits."""
        self._output = output
        self._exits = exits

    def append(self, port: int, segments: Sequence[Segment]) -> None:  # noqa: ARG002 - one port
        """Gives each segment to its session."""
        for segment in segments:
            session = segment.stream.session
            if not session.is_cancelled:
                is_last = segment.is_last and segment.stream.depth == 0
                session.results[self._output].put(segment.columns[0], is_last)
                if session.is_counting:
                    _count_out(session, segment, self._exits)
                session.passed(segment)

    def wait_for_room(self, port: int, timeout: float | None = None) -> bool:  # noqa: ARG002
        """Returns True at once."""
        return True


class SinkTerminal:
    """Notes what has passed a node that nothing follows, and the errors that end there."""

    def __init__(self, exits: Mapping[str, int]) -> None:
        """Takes, by origin, the node's place among the session's exits."""
        self._exits = exits

    def append(self, port: int, segments: Sequence[Segment]) -> None:  # noqa: ARG002
        """Notes each segment at its session."""
        for segment in segments:
            session = segment.stream.session
            if segment.has_errors:
                session.record_errors(segment.columns[0])
            if session.is_counting:
                _count_out(session, segment, self._exits)
            session.passed(segment)

    def wait_for_room(self, port: int, timeout: float | None = None) -> bool:  # noqa: ARG002
        """Returns True at once."""
        return True


def _count_out(session: Session, segment: Segment, exits: Mapping[str, int]) -> None:
    place = exits.get(session.origin)
    if place is not None:
        session.left(place, len(segment.positions))
