"""Draws a graph as SVG, DOT or Mermaid, with a colour for each device and a mark for each kind."""

from collections.abc import Mapping
from html import escape
from types import MappingProxyType

from modelflow.draw.layout import LINE, layout_of
from modelflow.draw.outline import PORT, Outline
from modelflow.draw.shapes import MARGIN, SIGNS, Box, Direction, Label, Layout, Wire
from modelflow.draw.text import LABEL_SIZE, TEXT_SIZE, text_width
from modelflow.errors import ConfigError, did_you_mean
from modelflow.graph.graph import Graph
from modelflow.graph.node import Role

FORMATS = ("svg", "dot", "mermaid")

# Fill and border by device; "port" is an input or output of the graph.
COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"port": ("#f1f3f5", "#868e96"), "cpu": ("#dbeafe", "#3b82f6"), "cuda": ("#dcfce7", "#22a55b")}
)
_OTHER = ("#fef3c7", "#d97706")

_TITLE, _ROW, _LEAST_WIDTH = 34.0, 24.0, 420.0


def draw(
    graph: Graph,
    format: str = "svg",  # noqa: A002 - the field's word
    direction: Direction = "auto",
) -> str:
    """Draws a graph.

    Args:
        graph: The graph.
        format: ``svg``, ``dot`` or ``mermaid``.
        direction: See `layout_of`.

    Raises:
        ConfigError: the format is unknown.
    """
    if format not in FORMATS:
        expected = f"expected one of {', '.join(FORMATS)}{did_you_mean(format, FORMATS)}"
        raise ConfigError(f"format: got {format!r}; {expected}")
    outline = Outline.of(graph)
    layout = layout_of(outline, direction=direction).at_origin()
    if format == "dot":
        return _dot(graph, layout)
    return _mermaid(graph, layout) if format == "mermaid" else svg_of(layout, outline)


def _colours(kind: str) -> tuple[str, str]:
    return COLOURS.get(kind, _OTHER)


# -- text forms ---------------------------------------------------------------------------------


def _dot(graph: Graph, layout: Layout) -> str:
    lines = [
        f"digraph {_quote(graph.name)} {{",
        f"  rankdir={'TB' if layout.direction == 'down' else 'LR'};",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica"];',
    ]
    for box in layout.boxes:
        fill, border = _colours(box.kind)
        label = _quote("\n".join(_lines(box)))
        lines.append(f'  {_quote(box.name)} [label={label}, fillcolor="{fill}", color="{border}"];')
    for edge, wire in zip(graph.edges, layout.wires, strict=True):
        label = f" [label={_quote(wire.label)}]" if wire.label else ""
        lines.append(f"  {_quote(edge.source.node)} -> {_quote(edge.target.node)}{label};")
    return "\n".join([*lines, "}", ""])


def _lines(box: Box) -> list[str]:
    """Returns the lines of a box for forms without marks."""
    name, *more = box.lines
    return [name, *([box.mark] if box.mark else []), *more]


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _mermaid(graph: Graph, layout: Layout) -> str:
    names = {box.name: f"n{place}" for place, box in enumerate(layout.boxes)}
    lines = [f"flowchart {'TD' if layout.direction == 'down' else 'LR'}"]
    for box in layout.boxes:
        text = "<br/>".join(escape(line).replace('"', "#quot;") for line in _lines(box))
        is_port = graph.nodes[box.name].role is not Role.FLOWUNIT
        opening, closing = ("([", "])") if is_port else ("(", ")")
        lines.append(f'  {names[box.name]}{opening}"{text}"{closing}:::{box.kind}')
    for edge, wire in zip(graph.edges, layout.wires, strict=True):
        label = f'|"{escape(wire.label)}"|' if wire.label else ""
        lines.append(f"  {names[edge.source.node]} -->{label} {names[edge.target.node]}")
    for kind in dict.fromkeys(box.kind for box in layout.boxes):
        fill, border = _colours(kind)
        lines.append(f"  classDef {kind} fill:{fill},stroke:{border}")
    return "\n".join([*lines, ""])


# -- SVG ----------------------------------------------------------------------------------------


def svg_of(layout: Layout, outline: Outline) -> str:
    """Returns a layout as SVG, with a title and the explanations of colours and marks.

    Args:
        layout: The layout, whose corner is at the origin.
        outline: The graph.
    """
    title, about = outline.name or "graph", f"on {outline.device}" if outline.device else ""
    title_width = text_width(f"{title}   {about}", 15, is_bold=True) + 2 * MARGIN
    width = round(max(layout.width, title_width, _LEAST_WIDTH))
    legend, rows = _svg_legend(layout, width)
    below = _TITLE + layout.height
    height = round(below + rows * _ROW + 6)
    shown = f'<tspan dx="10" font-size="{TEXT_SIZE}" font-weight="normal">{escape(about)}</tspan>'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="{TEXT_SIZE}"><title>{escape(title)}</title>',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#495057"/></marker></defs>',
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="26" font-size="15" font-weight="bold" fill="#212529">'
        f"{escape(title)}{shown if about else ''}</text>",
        f'<g transform="translate({(width - layout.width) / 2:.1f} {_TITLE})">',
        *map(_svg_wire, layout.wires),
        *map(_svg_box, layout.boxes),
        *(_svg_label(label) for wire in layout.wires for label in wire.labels),
        f'</g><g transform="translate(0 {below:.0f})">',
        *legend,
    ]
    return "\n".join([*parts, "</g></svg>", ""])


def _svg_legend(layout: Layout, width: float) -> tuple[list[str], int]:
    """Returns the explanations of colours and marks, and the number of their rows."""
    found: list[tuple[str, str]] = []
    for kind in dict.fromkeys(box.kind for box in layout.boxes):
        fill, border = _colours(kind)
        look = f'width="13" height="13" rx="3" fill="{fill}" stroke="{border}"'
        text = "graph input, output" if kind == PORT else kind
        found.append((f"<rect {look}/>", text))
    marks = dict.fromkeys(box.mark for box in layout.boxes if box.mark)
    found += [(_svg_mark(mark, 0.0, 0.0), mark) for mark in marks]
    parts, x, row = [], MARGIN, 0
    for sign, text in found:
        wide = 19 + text_width(text)
        if x + wide > width - MARGIN and x > MARGIN:
            x, row = MARGIN, row + 1
        parts.append(
            f'<g transform="translate({x:.0f} {row * _ROW:.0f})">{sign}'
            f'<text x="19" y="11" fill="#495057">{escape(text)}</text></g>'
        )
        x += wide + 20
    return parts, row + 1 if found else 0


def _svg_mark(mark: str, x: float, y: float) -> str:
    fill = "#495057" if mark in ("source", "sink", "condition") else "none"
    return (
        f'<path class="mark" transform="translate({x:.1f} {y:.1f})" d="{SIGNS[mark]}" '
        f'fill="{fill}" stroke="#495057" stroke-width="1.2"/>'
    )


def _svg_box(box: Box) -> str:
    fill, border = _colours(box.kind)
    middle = box.x + box.width / 2
    begin = box.y + (box.height - len(box.lines) * LINE) / 2 + 13
    lines = []
    for place, text in enumerate(box.lines):
        y = begin + place * LINE
        weight = ' font-weight="bold"' if place == 0 else ""
        colour = "#212529" if place == 0 else "#495057"
        lines.append(
            f'<text x="{middle:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}"{weight}>'
            f"{escape(text)}</text>"
        )
    radius = min(26.0, box.height / 2) if box.kind == PORT else 9
    mark = _svg_mark(box.mark, box.x + 6, box.y + 6) if box.mark else ""
    about = f"{box.name}: {box.mark}" if box.mark else box.name
    return (
        f"<g><title>{escape(about)}</title>"
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:.0f}" fill="{fill}" stroke="{border}" '
        f'stroke-width="1.4"/>{mark}' + "".join(lines) + "</g>"
    )


def _svg_wire(wire: Wire) -> str:
    return (
        f'<path class="wire" d="{wire.path}" fill="none" stroke="#495057" stroke-width="1.4" '
        'marker-end="url(#arrow)"/>'
    )


def _svg_label(label: Label) -> str:
    whole = f"<title>{escape(label.name)}</title>" if label.text != label.name else ""
    return (
        f'<text class="label" x="{label.x:.1f}" y="{label.y:.1f}" '
        f'text-anchor="{"end" if label.is_at_end else "start"}" font-size="{LABEL_SIZE}" '
        f'fill="#495057" stroke="#ffffff" stroke-width="3" paint-order="stroke">{whole}'
        f"{escape(label.text)}</text>"
    )
