"""``video_demuxer`` on the CPU."""

from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import Any

from flowunits.video_demuxer import VideoDemuxerOptions
from flowunits.video_demuxer.reading import Reading
from modelflow import Context, FlowUnit
from modelflow.video import load_av

# Most packets of one call, to let other streams run and to respect the bound of the queue.
_PACKETS_A_CALL = 16


class VideoDemuxer(FlowUnit):
    """Reads a few packets in each call and calls itself again by an event.

    No thread waits while a connection is to be opened again. The state of a stream is ``waiting``,
    the addresses still to be read, and ``reading``.
    """

    def open(self, config: VideoDemuxerOptions) -> None:
        """Stores the options."""
        self._options = config
        self._counts = Counter(opened=0, reopened=0, failed=0)
        load_av()

    def figures(self) -> Mapping[str, Mapping[Any, int]]:
        """Returns ``connections``: the openings, the openings after a loss, and failures."""
        return {"connections": dict(self._counts)}

    def process(self, ctx: Context) -> None:
        """Stores new addresses, or reads the next packets."""
        state = ctx.state
        if ctx.event is None:
            waiting = state.setdefault("waiting", [])
            waiting.extend(ctx.input())
            if "reading" not in state and not state.get("is_called"):
                state["is_called"] = ctx.send_event()
            return
        state["is_called"] = False
        if "reading" not in state:
            openings = state.setdefault("openings", count())
            address = state["waiting"].pop(0)
            state["reading"] = Reading(address, self._options, openings, self._counts)
        reading: Reading = state["reading"]
        values, delay = reading.read(_PACKETS_A_CALL)
        ctx.emit(values)
        if reading.is_over:
            del state["reading"]
        if "reading" in state or state["waiting"]:
            state["is_called"] = ctx.send_event(delay=delay)

    def stream_end(self, ctx: Context) -> None:
        """Closes the open video."""
        reading = ctx.state.pop("reading", None)
        if reading is not None:
            reading.close()
