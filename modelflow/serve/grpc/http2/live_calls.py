"""The calls of one connection that have an answer to come, or to be taken."""

from collections.abc import Callable

from zttp import H2ErrorCode

from modelflow.serve.grpc.http2.call import GrpcCall
from modelflow.serve.grpc.http2.frames import Credit
from modelflow.serve.grpc.http2.refusals import end_stream
from modelflow.serve.grpc.http2.switchboard import Switchboard

__all__ = ["LiveCalls"]


class LiveCalls:
    """The calls of a connection; each one's `Line`. For the loop's thread.

    Attributes:
        flush: Sends soon what was written to the streams.
        is_writable: The client takes what it is sent.
        credit: What clients may not send yet.
    """

    def __init__(
        self, board: Switchboard, flush: Callable[[], None], emptied: Callable[[], None]
    ) -> None:
        """Takes what all connections share, what sends, and what is called behind the last call."""
        self.flush = flush
        self.is_writable = True
        self.credit = Credit()
        self._board = board
        self._emptied = emptied
        self._all: dict[int, GrpcCall] = {}
        self._parked: dict[GrpcCall, None] = {}  # whose client has yet to take what it was sent
        self._heard: list[GrpcCall] = []  # in this turn

    def __len__(self) -> int:
        return len(self._all)

    def add(self, call: GrpcCall) -> None:
        """Takes up a call."""
        self._all[call.stream.stream_id] = call
        self._heard.append(call)

    def find(self, stream: int) -> GrpcCall | None:
        """Returns the call of a stream; None: it has none any more."""
        return self._all.get(stream)

    def hear(self, call: GrpcCall, data: bytes) -> None:
        """Gives a call what has come for it."""
        call.receive(data)
        self._heard.append(call)

    def look(self) -> None:
        """Looks, behind a turn, for whose messages there is still to wait."""
        for call in self._heard:
            self._board.watch(call)
        self._heard.clear()

    def go_on(self) -> None:
        """Sends on where the client has made room."""
        for call in tuple(self._parked):
            if not call.is_waiting:
                del self._parked[call]
                self._board.writing.forget(call)
                if call.is_over:
                    self.answered(call)
                else:
                    call.pump()

    def pump(self) -> None:
        """Sends what there is of all."""
        for call in tuple(self._all.values()):
            call.pump()

    def gone(self, call: GrpcCall) -> None:
        """Notes that the client has given a call up."""
        call.gone()
        self._forget(call)

    def drop_all(self) -> None:
        """Tells every call that nobody waits for it."""
        for call in tuple(self._all.values()):
            call.gone()
            self._board.forget(call)
        self._all.clear()
        self._parked.clear()

    # -- the calls' calls -------------------------------------------------------------------------

    def park(self, call: GrpcCall) -> None:
        """Notes that a call waits for its client to take what it was sent."""
        if call not in self._parked:
            self._parked[call] = None
            self._board.writing.add(call)

    def answered(self, call: GrpcCall) -> None:
        """Notes that a call has its status."""
        if call not in self._parked:
            end_stream(call.stream, is_heard=call.is_heard)
            self._forget(call)

    def resume(self, call: GrpcCall) -> None:
        """Notes that a call takes messages again."""
        self.credit.release(call)
        self.flush()

    def drop(self, call: GrpcCall) -> None:
        """Ends a call whose client does not take what it is sent."""
        call.stream.reset(H2ErrorCode.CANCEL)
        self._forget(call)
        self.flush()

    def _forget(self, call: GrpcCall) -> None:
        del self._all[call.stream.stream_id]
        self._parked.pop(call, None)
        self._board.forget(call)
        if not self._all:
            self._emptied()
