"""The last moments of a flow, and what there is to tell of them as server-sent events."""

import json
from collections import deque
from typing import Any

from modelflow.draw.outline import Outline
from modelflow.profile.snapshot import Snapshot
from modelflow.studio.frame import VERDICT_SECONDS, frame_of
from modelflow.studio.picture import picture_of


class Moments:
    """What was seen of a flow in the last seconds.

    Attributes:
        picture: Where its nodes are drawn, as an event; empty before the first moment.
        frame: What they do now, likewise.
    """

    def __init__(self) -> None:
        self.picture = b""
        self.frame = b""
        self._outline = Outline()
        self._seen: deque[Snapshot] = deque()

    def add(self, snapshot: Snapshot) -> None:
        """Takes the flow as it is now."""
        seen = self._seen
        if seen and snapshot.stats.seconds < seen[-1].stats.seconds:
            seen.clear()  # it is another flow, which has begun since
        seen.append(snapshot)
        while snapshot.stats.time - seen[0].stats.time > VERDICT_SECONDS:
            seen.popleft()
        if not self.picture or snapshot.outline != self._outline:
            self._outline = snapshot.outline
            self.picture = event("picture", picture_of(snapshot.outline))
        self.frame = event("frame", frame_of(tuple(seen)))


def event(name: str, value: Any) -> bytes:
    """Returns a server-sent event whose data is JSON."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return f"event: {name}\ndata: {text}\n\n".encode()
