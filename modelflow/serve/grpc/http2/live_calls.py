"""The calls of one connection that have an answer to come, or to be taken."""

from collections.abc import Callable

from zttp import H2ErrorCode

from modelflow.serve.grpc.http2.call import GrpcCall
from modelflow.serve.grpc.http2.call_headers import end_stream
from modelflow.serve.grpc.http2.connection_use import Credit
from modelflow.serve.grpc.http2.method_table import MethodTable
from modelflow.serve.grpc.http2.whole_call import WholeCall


class LiveCalls:
    """The calls of a connection; each one's `Line`. For the loop's thread.

    Attributes:
        flush: Sends soon what was written to the streams.
        is_writable: The client takes what it is sent.
        credit: What clients may not send yet.
        others: Those that are no whole ones, by stream.
        whole: The whole ones, by stream.
        begun: Those of them that may turn out to be none; only within a turn.
    """

    def __init__(
        self, board: MethodTable, flush: Callable[[], None], emptied: Callable[[], None]
    ) -> None:
        """Takes what all connections share, what sends, and what is called behind the last call."""
        self.flush = flush
        self.is_writable = True
        self.credit = Credit()
        self._board = board
        self._emptied = emptied
        self.others: dict[int, GrpcCall] = {}
        self.whole: dict[int, WholeCall] = {}
        self.on_begin: dict[int, WholeCall] = {}
        self._parked: dict[GrpcCall, None] = {}  # whose client has yet to take what it was sent
        self._heard: list[GrpcCall] = []  # in this turn

    def __len__(self) -> int:
        return len(self.others) + len(self.whole)

    def add(self, call: GrpcCall) -> None:
        """Takes up a call."""
        self.others[call.stream.stream_id] = call
        self._heard.append(call)

    def find(self, stream: int) -> GrpcCall | None:
        """Returns the call of a stream; None: it has none any more."""
        return self.others.get(stream)

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
                    self.on_answer(call)
                else:
                    call.pump()

    def pump(self) -> None:
        """Sends what there is of all."""
        for call in tuple(self.others.values()):
            call.pump()

    def on_cancel(self, stream: int) -> None:
        """Notes that the client has given up the call of a stream, if there is one."""
        call = self.others.get(stream)
        if call is not None:
            call.on_cancel()
            self._forget(call)
        elif (whole := self.whole.get(stream)) is not None:
            self._take_out(whole)
            whole.leave()
            self._look_if_empty()

    def drop_all(self) -> None:
        """Tells every call that nobody waits for it."""
        for whole in tuple(self.whole.values()):
            self._take_out(whole)
            whole.leave()
        for call in tuple(self.others.values()):
            call.on_cancel()
            self._board.forget(call)
        self.others.clear()
        self._parked.clear()

    # -- the calls' calls -------------------------------------------------------------------------

    def park(self, call: GrpcCall) -> None:
        """Notes that a call waits for its client to take what it was sent."""
        if call not in self._parked:
            self._parked[call] = None
            self._board.writing.add(call)

    def on_answer(self, call: GrpcCall) -> None:
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
        del self.others[call.stream.stream_id]
        self._parked.pop(call, None)
        self._board.forget(call)
        self._look_if_empty()

    def _look_if_empty(self) -> None:
        if not self.others and not self.whole:
            self._emptied()

    # -- the whole calls' calls, and those that are none after all ------------------------------

    def finished(self, call: WholeCall) -> None:
        """Notes that a call is answered, and its stream ended."""
        self._take_out(call)
        self.flush()
        if not self.others and not self.whole:
            self._emptied()

    def on_done(self, call: WholeCall) -> None:
        """Notes that nobody works on a call any more."""
        self._board.limits.messages.give_back(call.size)

    def begin_other(self, whole: WholeCall, peer: str) -> None:
        """Has a call begin as any other: it is no whole one."""
        self._take_out(whole)
        board, request = self._board, whole.request
        head = board.head(request)
        call = board.begin(self, whole.stream, request, head, peer)
        self.add(call)
        board.admit(call, head)
        if whole.data:
            self.on_done(whole)  # it takes its bytes itself
            self.hear(call, whole.data)

    def hand_over(self, call: WholeCall, *, is_begun: bool) -> GrpcCall:
        """Has a call go on as any other, whose answer does not go out at once."""
        self._take_out(call)
        board, request = self._board, call.request
        other = board.begin(self, call.stream, request, board.head(request), "")
        self.others[call.stream.stream_id] = other
        other.wait(call.remaining_seconds())
        other.go_on(call, is_begun=is_begun)
        return other

    def _take_out(self, whole: WholeCall) -> None:
        number = whole.stream.stream_id
        del self.whole[number], self._board.calls[whole]
        self.on_begin.pop(number, None)
        whole.stop_waiting()
