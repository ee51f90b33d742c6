"""Rewrites whole statements of a DOT text, and places new statements.

A new statement gets a line of its own if its neighbours have one.
"""

import re
from collections.abc import Mapping
from itertools import pairwise

from modelflow.config.dot.syntax import Attribute, AttributeList, Body, Statement
from modelflow.config.dot.tokens import dot_word, tokens_of
from modelflow.config.edit.statements import Splice, find_lost, indentation, is_first, is_last

_COMMENT = re.compile(r"(?://|\#)[^\n]*|/\*.*?\*/", re.DOTALL)
# The rest of a line behind a statement.
_REST = re.compile(r"(?:[ \t]|/\*.*?\*/)*(?:(?://|\#)[^\n]*)?(?=\n|\Z)", re.DOTALL)
# Two characters that would merge to one word.
_WORD_AND_WORD = re.compile(r"""[^\s{}\[\];,"/#<>]{2}""")
_BLANKS = re.compile(r"[ \t]*")


def comments(text: str) -> list[str]:
    """Returns the comments between the tokens of a piece of DOT, without trailing blanks."""
    position, found = 0, list[str]()
    for token in tokens_of(text, ""):
        found += map(str.rstrip, _COMMENT.findall(text, position, token.start))
        position = token.end
    return found


def replace_name(text: str, start: int, end: int, name: str) -> Splice:
    """Returns the splice that replaces a name by another name, which keeps the comments."""
    written = dot_word(name, in_quotes=text[start] == '"')
    for comment in comments(text[start:end]):
        written += f" {comment}" + "\n" * (not comment.startswith("/*"))
    return Splice(start, end, written)


def replace_statement(text: str, statement: Statement, lines: list[str]) -> Splice:
    """Returns the splice that replaces a statement by ``lines``; without lines, removes the
    statement.

    Comments of the old statement that the new statements do not have are put before them.
    """
    start, end = statement.start, statement.end if lines else statement.until
    kept = [comment for line in lines for comment in comments(line)]
    lost = find_lost(comments(text[start:end]), kept)
    if not lines and not lost:
        return _removal(text, start, end)
    line_end = "\n" + indentation(text, start)
    ending = ";" * (statement.until > statement.end)
    between = f"{ending}{line_end}" if is_first(text, start) else "; "
    before = "".join(
        comment + (" " if comment.startswith("/*") and between == "; " else line_end)
        for comment in lost
    )
    if not lines and (is_last(text, end) or lost[-1].startswith("/*")):
        before = before.rstrip()
    written = before + between.join(lines)
    # A statement is inside braces, so the text has a character on both sides.
    left, right = text[start - 1], text[end]
    return Splice(start, end, _gap(left, written) + written + _gap(written, right))


def _removal(text: str, start: int, end: int) -> Splice:
    """Returns the splice that removes a piece, with its line if the line has no other text."""
    line = text.rfind("\n", 0, start) + 1
    blanks = _BLANKS.match(text, end)
    behind = blanks.end() if blanks else end
    if is_first(text, start):
        is_alone = is_last(text, end)
        return Splice(line if is_alone else start, min(behind + is_alone, len(text)), "")
    start = line + len(text[line:start].rstrip(" \t"))
    return Splice(start, end, _gap(text[start - 1], text[end]))


def _gap(left: str, right: str) -> str:
    """Returns the blank that two texts need between them to not become one word, or ""."""
    return " " * bool(_WORD_AND_WORD.fullmatch(left[-1:] + right[:1]))


def put_behind(text: str, statement: Statement, line: str) -> Splice:
    """Returns the splice that adds a statement behind another, with the same ending."""
    line += ";" * (statement.until > statement.end)
    rest = _REST.match(text, statement.until)
    if rest is None or not is_first(text, statement.start):
        return Splice(statement.until, statement.until, f" {line}")
    place = rest.end()
    return Splice(place, place, f"\n{indentation(text, statement.start)}{line}")


def put_into(text: str, body: Body, line: str) -> Splice:
    """Returns the splice that adds the first statement to an empty body."""
    if is_first(text, body.end):
        place = text.rfind("\n", 0, body.end) + 1
        return Splice(place, place, f"{indentation(text, body.end)}    {line}\n")
    blank = " " if text[body.start] in " \t" else ""
    return Splice(body.start, body.start, blank + line)


def with_attributes(
    text: str, statement: Statement, values: Mapping[str, str | None], blank: str = " "
) -> str:
    """Returns a statement with changed attributes.

    Args:
        text: The whole text.
        statement: The statement.
        values: Attribute -> its new value, or None to remove the attribute.
        blank: The separator between a node and new brackets.

    Raises:
        ConfigError: DOT cannot represent a value.
    """
    lists = [brackets for brackets in statement.lists if brackets.attributes]
    head = text[statement.start : statement.lists[0].start if statement.lists else statement.end]
    last = {attribute.name: attribute for attribute in statement.attributes}
    new = [
        f"{dot_word(key)}={dot_word(value)}"
        for key, value in values.items()
        if value is not None and key not in last
    ]
    written = []
    for brackets in lists:
        sources = [_write(text, one, last[one.name] is one, values) for one in brackets.attributes]
        if new and brackets is lists[-1]:
            written.append(_extend(text, brackets, sources, new))
        elif any(sources):
            written.append(_write_list(text, brackets, sources))
    if new and not lists:
        written.append(f"[{', '.join(new)}]")
    if not written:
        return text[statement.start : statement.chain[-1].end]
    return head + blank * (not statement.lists) + " ".join(written)


def _write(
    text: str, attribute: Attribute, is_in_effect: bool, values: Mapping[str, str | None]
) -> str:
    """Returns the new text of an attribute, or "" if the attribute is removed."""
    as_written = text[attribute.start : attribute.end]
    if attribute.name not in values:
        return as_written
    value = values[attribute.name]
    if value is None:
        return ""
    if not is_in_effect or value == attribute.value:
        return as_written
    if attribute.value_start is None:
        return f"{as_written}={dot_word(value)}"
    word = dot_word(value, in_quotes=text[attribute.value_start] == '"')
    return text[attribute.start : attribute.value_start] + word


def _gaps(text: str, brackets: AttributeList) -> list[str]:
    """Returns the texts around the attributes of a list: ``[``, the separators, ``]``."""
    places = [(one.start, one.end) for one in brackets.attributes]
    edges = [(0, brackets.start), *places, (brackets.end, 0)]
    return [text[before[1] : after[0]] for before, after in pairwise(edges)]


def _write_list(text: str, brackets: AttributeList, sources: list[str]) -> str:
    """Returns a list with its attributes written as ``sources``; "" omits an attribute."""
    first, *gaps = _gaps(text, brackets)
    left = [place for place, source in enumerate(sources) if source]
    inside = "".join(
        sources[place] + (gaps[place] or " " * (behind > place + 1))  # a removed one left no gap
        for place, behind in pairwise(left)
    )
    return first + inside + sources[left[-1]] + gaps[-1]


def _extend(text: str, brackets: AttributeList, sources: list[str], new: list[str]) -> str:
    """Returns a list with added attributes, on lines of their own if the others are."""
    if not any(sources):
        return f"[{', '.join(new)}]"
    last = brackets.attributes[-1]
    separator = text[last.until - 1] if last.until > last.end else ""
    closing = _gaps(text, brackets)[-1]
    before = _write_list(text, brackets, sources).removesuffix(closing)
    if "\n" not in closing or not is_first(text, last.start):
        return before + "".join(f"{separator or ','} {one}" for one in new) + closing
    behind, _, end = closing.rpartition("\n")
    indent = indentation(text, last.start)
    lines = (separator or ",").join(f"\n{indent}{one}" for one in new) + separator
    return f"{before}{'' if separator else ','}{behind}{lines}\n{end}"
