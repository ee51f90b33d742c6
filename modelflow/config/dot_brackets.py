"""Attributes in the brackets of a DOT statement: changed, added, taken away."""

from collections.abc import Iterator

from modelflow.config.dot_layout import comments, put_under, taken_away
from modelflow.config.dot_syntax import Attribute, Statement
from modelflow.config.dot_words import dot_word
from modelflow.config.splice import Splice

__all__ = ["with_attribute", "with_value", "without_attribute"]


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
    under = put_under(text, last.start, last.until, written + separator)
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
            yield taken_away(text, brackets.start, brackets.end)
            continue
        for attribute in gone:
            yield taken_away(text, attribute.start, attribute.until)
        last = brackets.attributes[-1]
        if last is gone[-1] and last.until == last.end:
            before = kept[-1]
            yield Splice(before.end, before.until, comments(text[before.end : before.until]))
