"""Where a page draws the nodes of a flow, and the lines between them. Pure."""

from typing import Any

from modelflow.draw.layout import Size, layout_of
from modelflow.draw.outline import PORT, Outline

# Pixels: a node's card holds its name, unit, rate, bar and queue; a port its name.
_CARD: Size = (196.0, 102.0)
_PORT_HEIGHT, _PORT_LEAST, _LETTER, _EDGE = 34.0, 76.0, 8.0, 30.0


def picture_of(outline: Outline) -> dict[str, Any]:
    """Returns boxes and wires as what JSON can hold (``studio/src/live/frame.ts``: ``Picture``)."""
    sizes = {node.name: card_size(node.name, node.kind) for node in outline.nodes}
    layout = layout_of(outline, sizes).at_origin()
    boxes = [
        {
            "name": box.name,
            "kind": box.kind,
            "lines": list(box.lines),
            "x": box.x,
            "y": box.y,
            "width": box.width,
            "height": box.height,
        }
        for box in layout.boxes
    ]
    wires = [
        {"source": edge.source, "target": edge.target, "path": wire.path, "label": wire.label}
        for edge, wire in zip(outline.edges, layout.wires, strict=True)
    ]
    return {
        "name": outline.name,
        "width": layout.width,
        "height": layout.height,
        "boxes": boxes,
        "wires": wires,
    }


def card_size(name: str, kind: str) -> Size:
    """Returns how large the box of a node is."""
    if kind == PORT:
        return max(_PORT_LEAST, len(name) * _LETTER + _EDGE), _PORT_HEIGHT
    return max(_CARD[0], len(name) * _LETTER + _EDGE), _CARD[1]
