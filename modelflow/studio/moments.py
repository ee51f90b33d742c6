"""The last snapshots of a flow as server-sent events, and the places of nodes and edges."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from modelflow.draw.layout import layout_of
from modelflow.draw.outline import PORT, Outline
from modelflow.draw.shapes import SIGNS, Box, Direction, Size
from modelflow.profile.snapshot import Snapshot
from modelflow.studio.frame import frame_of
from modelflow.studio.verdict import VERDICT_SECONDS, SteadyVerdict

# Sizes in pixels. A node's card shows name, unit, rate, bar and queue; a port shows its name.
_CARD: Size = (196.0, 102.0)
_PORT_HEIGHT, _PORT_LEAST, _LETTER, _EDGE = 34.0, 76.0, 8.0, 30.0


Plan = Sequence[Mapping[str, str]]
"""The rows of a plan, as in `Snapshot`."""


def picture_of(outline: Outline, plan: Plan = ()) -> dict[str, Any]:
    """Returns drawings and plan as JSON values (``studio/src/live/frame.ts``: ``Picture``).

    A narrow page shows ``down``, in which the data runs from top to bottom.
    """
    return {
        "name": outline.name,
        **_drawing(outline, "auto"),
        "down": _drawing(outline, "down"),
        "plan": {row["node"]: dict(row) for row in plan},
    }


def _drawing(outline: Outline, direction: Direction) -> dict[str, Any]:
    sizes = {node.name: card_size(node.name, node.kind) for node in outline.nodes}
    layout = layout_of(outline, sizes, direction).at_origin()
    wires = [
        {"source": edge.source, "target": edge.target, "path": wire.path, "label": wire.label}
        for edge, wire in zip(outline.edges, layout.wires, strict=True)
    ]
    return {
        "width": layout.width,
        "height": layout.height,
        "boxes": [_box(box) for box in layout.boxes],
        "wires": wires,
    }


def _box(box: Box) -> dict[str, Any]:
    lists = {"lines": list(box.lines), "inputs": list(box.inputs), "outputs": list(box.outputs)}
    return {**asdict(box), **lists, "sign": SIGNS.get(box.mark, "")}


def card_size(name: str, kind: str) -> Size:
    """Returns the size of a node's box."""
    if kind == PORT:
        return max(_PORT_LEAST, len(name) * _LETTER + _EDGE), _PORT_HEIGHT
    return max(_CARD[0], len(name) * _LETTER + _EDGE), _CARD[1]


class Moments:
    """The snapshots of a flow from the last seconds.

    Attributes:
        picture: The places and the plan of the nodes, as an event. Empty before the first snapshot.
        frame: The values of the nodes, as an event. Empty before the first snapshot.
    """

    def __init__(self) -> None:
        self.picture = b""
        self.frame = b""
        self._drawn: tuple[Outline, Plan] = (Outline(), ())
        self._seen: deque[Snapshot] = deque()
        self._verdict = SteadyVerdict()

    def add(self, snapshot: Snapshot) -> None:
        """Adds a snapshot and updates the events."""
        seen = self._seen
        if seen and snapshot.stats.seconds < seen[-1].stats.seconds:
            seen.clear()  # another flow, which has started since
            self._verdict = SteadyVerdict()
        seen.append(snapshot)
        while snapshot.stats.time - seen[0].stats.time > VERDICT_SECONDS:
            seen.popleft()
        drawn = snapshot.outline, snapshot.plan
        if not self.picture or drawn != self._drawn:
            self._drawn = drawn
            self.picture = event("picture", picture_of(*drawn))
        moments = tuple(seen)
        self.frame = event("frame", frame_of(moments, self._verdict.follow(moments)))


def event(name: str, value: Any) -> bytes:
    """Returns a server-sent event whose data is JSON."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return f"event: {name}\ndata: {text}\n\n".encode()
