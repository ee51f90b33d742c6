"""Draws a graph as SVG, DOT or Mermaid, coloured by device."""

from collections.abc import Mapping
from html import escape
from types import MappingProxyType

from modelflow.draw.layout import LINE, Box, Layout, Wire, layout_of
from modelflow.draw.outline import Outline
from modelflow.errors import ConfigError, did_you_mean
from modelflow.graph.graph import Graph
from modelflow.graph.node import Role

FORMATS = ("svg", "dot", "mermaid")

# Fill and border by device; "port" is an input or output of the graph.
COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"port": ("#f1f3f5", "#868e96"), "cpu": ("#dbeafe", "#3b82f6"), "cuda": ("#dcfce7", "#22a55b")}
)
_OTHER = ("#fef3c7", "#d97706")
_LEGEND = {"port": "graph input, output"}


def draw(graph: Graph, format: str = "svg") -> str:  # noqa: A002 - the field's word
    """Draws a graph.

    Args:
        graph: The graph.
        format: ``svg``, ``dot`` or ``mermaid``.

    Raises:
        ConfigError: the format is unknown.
    """
    if format == "dot":
        return _dot(graph)
    if format == "mermaid":
        return _mermaid(graph)
    if format not in FORMATS:
        expected = f"expected one of {', '.join(FORMATS)}{did_you_mean(format, FORMATS)}"
        raise ConfigError(f"format: got {format!r}; {expected}")
    return _svg(layout_of(Outline.of(graph)).at_origin(), graph.name)


def _colours(kind: str) -> tuple[str, str]:
    return COLOURS.get(kind, _OTHER)


# -- text forms ---------------------------------------------------------------------------------


def _dot(graph: Graph) -> str:
    lines = [
        f"digraph {_quote(graph.name)} {{",
        '  rankdir=LR; node [shape=box, style="rounded,filled", fontname="Helvetica"];',
    ]
    layout = layout_of(Outline.of(graph))
    for box in layout.boxes:
        fill, border = _colours(box.kind)
        label = _quote("\n".join(box.lines))
        lines.append(f'  {_quote(box.name)} [label={label}, fillcolor="{fill}", color="{border}"];')
    for edge, wire in zip(graph.edges, layout.wires, strict=True):
        label = f" [label={_quote(wire.label)}]" if wire.label else ""
        lines.append(f"  {_quote(edge.source.node)} -> {_quote(edge.target.node)}{label};")
    return "\n".join([*lines, "}", ""])


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _mermaid(graph: Graph) -> str:
    layout = layout_of(Outline.of(graph))
    names = {box.name: f"n{place}" for place, box in enumerate(layout.boxes)}
    lines = ["flowchart LR"]
    for box in layout.boxes:
        text = "<br/>".join(escape(line).replace('"', "#quot;") for line in box.lines)
        is_port = graph.nodes[box.name].role is not Role.FLOWUNIT
        opening, closing = ("([", "])") if is_port else ("(", ")")
        lines.append(f'  {names[box.name]}{opening}"{text}"{closing}:::{box.kind}')
    for edge, wire in zip(graph.edges, layout.wires, strict=True):
        label = f'|"{escape(wire.label)}"|' if wire.label else ""
        lines.append(f"  {names[edge.source.node]} -->{label} {names[edge.target.node]}")
    for kind in layout.kinds:
        fill, border = _colours(kind)
        lines.append(f"  classDef {kind} fill:{fill},stroke:{border}")
    return "\n".join([*lines, ""])


# -- SVG ----------------------------------------------------------------------------------------


def _svg(layout: Layout, title: str) -> str:
    width, height = round(layout.width), round(layout.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="12.5"><title>{escape(title)}</title>',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#495057"/></marker></defs>',
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    parts += [_svg_wire(wire) for wire in layout.wires]
    parts += [_svg_box(box) for box in layout.boxes]
    x = 18.0
    for kind in layout.kinds:
        fill, border = _colours(kind)
        text = _LEGEND.get(kind, kind)
        y = height - 26
        parts.append(
            f'<rect x="{x:.0f}" y="{y}" width="13" height="13" rx="3" fill="{fill}" '
            f'stroke="{border}"/><text x="{x + 19:.0f}" y="{y + 11}" fill="#495057">'
            f"{escape(text)}</text>"
        )
        x += 46 + 7 * len(text)
    return "\n".join([*parts, "</svg>", ""])


def _svg_box(box: Box) -> str:
    fill, border = _colours(box.kind)
    middle = box.x + box.width / 2
    lines = []
    for place, text in enumerate(box.lines):
        y = box.y + 22 + place * LINE
        weight = ' font-weight="bold"' if place == 0 else ""
        colour = "#212529" if place == 0 else "#495057"
        lines.append(
            f'<text x="{middle:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}"{weight}>'
            f"{escape(text)}</text>"
        )
    radius = box.height / 2 if box.kind == "port" else 9
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:.0f}" fill="{fill}" stroke="{border}" '
        f'stroke-width="1.4"/>' + "".join(lines)
    )


def _svg_wire(wire: Wire) -> str:
    path = (
        f'<path d="{wire.path}" fill="none" stroke="#495057" stroke-width="1.4" '
        'marker-end="url(#arrow)"/>'
    )
    if not wire.label:
        return path
    x, y = wire.middle
    return path + (
        f'<text x="{x:.1f}" y="{y - 6:.1f}" text-anchor="middle" font-size="10.5" fill="#495057" '
        f'stroke="#ffffff" stroke-width="3" paint-order="stroke">{escape(wire.label)}</text>'
    )
