"""Where in the lines of a DOT text something can be put, and what is left where it is taken away.

New statements get lines of their own where their neighbours have them. Comments stay.
"""

import re

from modelflow.config.dot_syntax import Body, Statement
from modelflow.config.dot_tokens import tokens_of
from modelflow.config.splice import Splice, indentation, line_end, line_start, removal

__all__ = [
    "comments",
    "is_first",
    "put_behind",
    "put_first",
    "put_last",
    "put_under",
    "taken_away",
]

# What may follow a statement in its line.
_REST = re.compile(r"(?:[ \t]|/\*.*?\*/)*(?:(?://|\#)[^\n]*?)?(?=\r?\n)", re.DOTALL)
_INDENT = "    "


def comments(text: str) -> str:
    """Returns the comments of whole tokens, with the blanks around them; "" where are none."""
    position, found = 0, []
    for token in tokens_of(text, ""):
        found.append(text[position : token.start])
        position = token.end
    between = "".join(found)
    return between if between.strip() else ""


def taken_away(text: str, start: int, end: int) -> Splice:
    """Returns the splice that takes whole tokens away, and leaves the comments between them."""
    kept = comments(text[start:end])
    return Splice(start, end, kept) if kept else removal(text, start, end)


def put_behind(text: str, statement: Statement, lines: list[str]) -> Splice:
    """Returns the splice that puts statements behind another, ended as it is."""
    place, ending = statement.until, ";" * (statement.until > statement.end)
    rest = _REST.match(text, place)
    if rest is None or not is_first(text, statement.start):
        return Splice(place, place, "".join(f" {line}{ending}" for line in lines))
    before = line_end(text, rest.end()) + indentation(text, statement.start)
    return Splice(rest.end(), rest.end(), "".join(f"{before}{line}{ending}" for line in lines))


def put_under(text: str, start: int, until: int, line: str) -> Splice | None:
    """Returns the splice that puts a line under the one of ``[start, until)``, indented alike.

    None where other things stand in that line.
    """
    rest = _REST.match(text, until)
    if rest is None or not is_first(text, start):
        return None
    before = line_end(text, rest.end()) + indentation(text, start)
    return Splice(rest.end(), rest.end(), before + line)


def put_first(text: str, body: Body, line: str) -> Splice:
    """Returns the splice that begins a body with a statement."""
    rest = _REST.match(text, body.start)
    if rest is None:
        is_spaced = text[body.start : body.end].startswith((" ", "\t"))
        line = f"{line};" if body.statements else line
        line = f" {line}" if is_spaced else f"{line} " if body.statements else line
        return Splice(body.start, body.start, line)
    inside = body.statements[0].start if body.statements else body.start
    indent = indentation(text, inside)
    if not body.statements or not is_first(text, inside):
        indent = indentation(text, body.end) + _INDENT
    return Splice(rest.end(), rest.end(), line_end(text, rest.end()) + indent + line)


def put_last(text: str, body: Body, line: str) -> Splice:
    """Returns the splice that ends a body with a statement."""
    return (
        put_behind(text, body.statements[-1], [line])
        if body.statements
        else put_first(text, body, line)
    )


def is_first(text: str, place: int) -> bool:
    """Tells whether nothing stands before a place in its line."""
    return not text[line_start(text, place) : place].strip(" \t")
