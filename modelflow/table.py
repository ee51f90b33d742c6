"""Tables of texts, for terminals and for notebooks; times as people read them."""

from collections.abc import Mapping, Sequence
from html import escape


def text_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Returns rows with the same columns as text: a line of names, and one for each."""
    if not rows:
        return ""
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def html_table(rows: Sequence[Mapping[str, str]], caption: str = "") -> str:
    """Returns the same as HTML; what it holds is escaped.

    Args:
        rows: With the same columns.
        caption: What stands above them.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row.values()) + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def time_text(seconds: float) -> str:
    """Returns a time with three digits and its unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError
