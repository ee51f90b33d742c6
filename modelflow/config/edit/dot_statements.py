"""Where in a DOT text something can be put, and attributes in the brackets of a statement.

New statements get lines of their own where their neighbours have them. Comments stay.
"""

import re
from collections.abc import Iterator

from modelflow.config.dot.syntax import Attribute, Body, Statement
from modelflow.config.dot.tokens import dot_word, tokens_of
from modelflow.config.edit.splice import Splice, indentation, line_end, line_start, removal

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


def remove_tokens(text: str, start: int, end: int) -> Splice:
    """Returns the splice that takes whole tokens away, and leaves the comments between them."""
    kept = comments(text[start:end])
    return Splice(start, end, kept) if kept else removal(text, start, end)


def put_behind(text: str, statement: Statement, lines: list[str]) -> Splice:
    """Returns the splice that puts statements behind another, ended as it is."""
    place, ending = statement.until, ";" * (statement.until > statement.end)
    lines = [line + ending for line in lines]
    beside = Splice(place, place, "".join(f" {line}" for line in lines))
    return put_under(text, statement.start, place, lines) or beside


def put_under(text: str, start: int, until: int, lines: list[str]) -> Splice | None:
    """Returns the splice that puts lines under the one of ``[start, until)``, indented alike.

    None where other things stand in that line.
    """
    rest = _REST.match(text, until)
    if rest is None or not is_first(text, start):
        return None
    before = line_end(text, rest.end()) + indentation(text, start)
    return Splice(rest.end(), rest.end(), "".join(before + line for line in lines))


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


def with_value(text: str, attribute: Attribute, value: str) -> Splice:
    """Returns the splice that gives an attribute another value, in quotes where the old one was.

    Raises:
        ConfigError: DOT cannot hold it.
    """
    if attribute.value_start is None:
        return Splice(attribute.end, attribute.end, f"={dot_word(value)}")
    word = dot_word(value, in_quotes=text[attribute.value_start] == '"')
    return Splice(attribute.value_start, attribute.end, word)


def with_attribute(text: str, statement: Statement, written: str, blank: str) -> list[Splice]:
    """Returns the splices that add an attribute to a statement, behind its others.

    Args:
        text: The whole text.
        statement: The statement.
        written: The attribute as it is to be written.
        blank: What to put between a node and brackets that it has not yet.
    """
    if not statement.lists:
        return [Splice(statement.end, statement.end, f"{blank}[{written}]")]
    brackets = statement.lists[-1]
    if not brackets.attributes:
        return [Splice(brackets.start + 1, brackets.start + 1, written)]
    last = brackets.attributes[-1]
    separator = text[last.until - 1] if last.until > last.end else ""
    under = put_under(text, last.start, last.until, [written + separator])
    if under is None:
        return [Splice(last.end, last.end, f"{separator or ','} {written}")]
    return [under] if separator else [Splice(last.end, last.end, ","), under]


def without_attribute(text: str, statement: Statement, key: str) -> Iterator[Splice]:
    """Gives the splices that take an attribute out of a statement; brackets go with the last."""
    for brackets in statement.lists:
        kept = [one for one in brackets.attributes if one.name != key]
        gone = [one for one in brackets.attributes if one.name == key]
        if not gone:
            continue
        if not kept:
            yield remove_tokens(text, brackets.start, brackets.end)
            continue
        for attribute in gone:
            yield remove_tokens(text, attribute.start, attribute.until)
        last = brackets.attributes[-1]
        if last is gone[-1] and last.until == last.end:
            before = kept[-1]
            yield Splice(before.end, before.until, comments(text[before.end : before.until]))
