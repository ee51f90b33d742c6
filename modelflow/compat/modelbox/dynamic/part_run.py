"""A part of a `ModelBoxEngine`'s graph while it runs."""

from collections import deque
from collections.abc import Mapping

from modelflow.buffer import Buffer as NativeBuffer
from modelflow.compat.modelbox.buffer import Buffer
from modelflow.compat.modelbox.dynamic.part import Inlet, Step
from modelflow.compat.modelbox.gathering import Gathering
from modelflow.errors import ModelflowError, StreamError
from modelflow.flow import Flow
from modelflow.stream_io import StreamIO


class PartRun:
    """One session of a running flow, and the sessions of its sources.

    What comes of one output while another is waited for is kept, since a program reads one behind
    the other. To be used by one thread.

    Attributes:
        is_over: Everything has come out; the flow, where it is this run's own, has ended.
        is_owner: The flow is this run's own.
    """

    def __init__(
        self,
        flow: Flow,
        inlets: Mapping[Inlet, str],
        outputs: Mapping[tuple[Step, str], str],
        *,
        is_owner: bool,
    ) -> None:
        """Opens the sessions; sends nothing yet.

        Args:
            flow: The running flow.
            inlets: The inputs, and their names there.
            outputs: The results, and their names there.
            is_owner: The flow ends with this run; else others use it as well.
        """
        self.is_over = False
        self._flow = flow
        self.is_owner = is_owner
        self._inlets = dict(inlets)
        self._outputs = dict(outputs)
        self._session = flow.create_stream_io() if inlets else None
        own = [self._session] if self._session is not None else []
        streams = [*own, *flow.source_streams.values()]
        self._gatherings = {stream: Gathering(stream) for stream in streams}
        self._kept: dict[str, deque[NativeBuffer]] = {
            name: deque() for stream in streams for name in stream.outputs
        }

    def begin(self) -> None:
        """Sends what waits at the inputs; raises as `send`."""
        for inlet in self._inlets:
            if self._session is not None:
                self._session.meta.update(inlet.meta)
            waiting = inlet.waiting or ([NativeBuffer()] if inlet.meta else [])
            inlet.waiting = []
            for buffer in waiting:
                self.send(inlet, buffer)
        self.close_inputs()

    def send(self, inlet: Inlet, buffer: NativeBuffer) -> None:
        """Sends one buffer; waits while the graph is full.

        Raises:
            StreamError: the flow has failed, or was ended.
        """
        assert self._session is not None  # as above
        for key, value in inlet.meta.items():
            buffer.meta.setdefault(key, value)
        self._session.send(self._inlets[inlet], buffer)

    def close_inputs(self) -> None:
        """Ends the input, where every part of it is closed."""
        if self._session is not None and all(inlet.is_closed for inlet in self._inlets):
            self._session.close_input()

    def take(self, step: Step, port: str) -> Buffer | None:
        """Waits for the next buffer of a result; None where it has ended.

        Raises:
            ModelflowError: it is no result of this run; or a unit without outputs failed.
            FlowFailed: the flow itself failed.
        """
        name = self._outputs.get((step, port))
        if name is None:
            message = (
                f"{step.unit!r}: its graph runs already, and {port!r} is no result of it; iterate "
                "over it, or hold its handler open, before the first result is taken"
            )
            raise ModelflowError(message)
        kept = self._kept[name]
        stream = next(stream for stream in self._gatherings if name in stream.outputs)
        while not kept and name not in self._gatherings[stream].ended:
            self._gather(stream)
        if kept:
            return Buffer(kept.popleft())
        if all(gathering.is_over for gathering in self._gatherings.values()):
            self.finish()
        return None

    def drop(self, step: Step, port: str) -> None:
        """Lets go what is kept of a result that nobody wants any more."""
        name = self._outputs.get((step, port))
        if name is not None:
            self._kept[name] = deque(maxlen=0)

    def _gather(self, stream: StreamIO) -> None:
        try:
            self._gatherings[stream].wait()
            for name in stream.outputs:
                self._gatherings[stream].take_ready(name, self._kept[name])
        except StreamError:
            self._flow.stop()  # raises what the flow failed of
            raise

    def finish(self) -> None:
        """Waits until all that was sent has passed; what nobody has taken is dropped.

        Raises:
            FlowUnitError: the first error of units without outputs.
            FlowFailed: the flow itself failed.
        """
        if self.is_over:
            return
        for inlet in self._inlets:
            inlet.is_closed = True
        self.close_inputs()
        for stream, gathering in self._gatherings.items():
            while not gathering.is_over:
                self._gather(stream)
            stream.wait()
        self.is_over = True
        if self.is_owner:
            self._flow.stop()
        for stream in self._gatherings:
            if stream.errors:
                raise stream.errors[0]

    def abort(self) -> None:
        """Ends it at once.

        Raises:
            FlowFailed: the flow itself failed.
        """
        self.is_over = True
        if self._session is not None:
            self._session.cancel()
        if self.is_owner:
            self._flow.stop(drain=False)
