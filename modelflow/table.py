"""Tables of text for terminals and notebooks, and times in readable units."""

from collections.abc import Mapping, Sequence


def text_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Returns rows as text: a line of column names, and a line for each row.

    All rows have the same columns.
    """
    if not rows:
        return ""
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def html_table(rows: Sequence[Mapping[str, str]], caption: str = "") -> str:
    """Returns rows as an HTML table; names, cells and caption are escaped.

    Args:
        rows: The rows, all with the same columns.
        caption: The text above the table.
    """
    from html import escape  # here, because only notebooks need it

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
    """Returns a time with three digits and its unit, as in ``1.25 ms``."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError
