"""Reads the sentences of docstrings, comments, messages and pages, and checks them.

``python -m tests.prose modelflow/cli docs`` lists every sentence that breaks a rule.
``tests/test_prose.py`` expects that none does. The rules are in `check`.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

LONGEST_SENTENCE = 25
LONGEST_FIRST_SENTENCE = 20

# Words that take the place of a noun. ``one`` before a noun is a number.
PRONOUNS = re.compile(
    r"\b(it|those|what|whatever|who|whoever|whom|there|somebody|nobody|someone|anybody)\b"
    r"|\b(?:one|ones)\b(?=$|[.,;:)]| (?:of|that|which|is|has|was|in|for|with|to|at|by|and|or|as"
    r"|after|from|on|only|alone|more|runs|does|gives|stands|comes|takes|knows|says)\b)",
    re.IGNORECASE,
)

# `Returns what it has` hides a noun. The word may begin an indirect question: "shows what limits
# the graph".
_ASKING = """
about ask asks check checks choose chooses decide decides decided depends describe describes explain
explains find finds know knows known learn learns matter say says said see sees show shows shown
tell tells understand
"""
ASKING = frozenset(_ASKING.split())
FREE_RELATIVE = re.compile(
    r"(?<![\w-])(?:(?P<before>\w+) (?:on |out |of )?)?(?P<what>what|whatever|whoever)"
    r"\b(?![-\w]| to\b| was (?:found|expected)\b)",
    re.IGNORECASE,
)

# Phrases that make a reader stop, and the plain words for each.
RIDDLES = {
    r"told of": "logged, notified, reported",
    r"\banew\b": "again",
    r"\bin turn\b": "one after the other",
    r"\bas ever\b": "as usual",
    r"\bholds? up\b|\bheld up\b|\bholding up\b": "delay, block",
    r"\bso that\b": "to, because, or two sentences",
    r"\bwhat (?:there|is there) is\b": "the items",
    r"\bwho (?:waits?|asks?|comes?|brings?)\b": "the caller, the client, the request",
    r"\bwhat (?:comes|came|goes|went|waits?|stands|stood|follows)\b": "name the noun",
    r"\bit is (?:said|told)\b": "the log names, the error names",
    r"\bmodelflow is told\b": "you set",
    r"\bsees to it\b": "ensures",
    r"\bwhereupon\b|\bthereof\b|\btherein\b|\bthereby\b|\bwherein\b": "two sentences",
}
_RIDDLES = {re.compile(pattern, re.IGNORECASE): plain for pattern, plain in RIDDLES.items()}

_CODE = re.compile(r"``[^`]+``|`[^`]+`|\{\{.*?\}\}")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?])[)\"']?\s+(?=[A-Z\"'(\[*§])")
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|etc|cf|vs|ca|No|approx)\.$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_SECTION = re.compile(
    r"^(Args|Arguments|Returns?|Yields?|Raises|Examples?|Attributes|Notes?|Inputs?|Outputs?):$"
)
_FIELD = re.compile(r"^\*{0,2}[\w.|\[\], ]+(?: \([^)]*\))?: ")
_SILENT = re.compile(r"^#\s*(?:noqa|type:|pragma|fmt:|ruff|mypy|!|-\*-|[-=#]{3,})")


@dataclass(frozen=True)
class Sentence:
    """A sentence and its place: ``kind`` is ``docstring``, ``comment``, ``message`` or ``page``."""

    path: str
    line: int
    kind: str
    text: str
    is_first: bool = False

    @property
    def length(self) -> int:
        """Returns the number of words; each inline code counts as a single word."""
        return sum(any(c.isalnum() for c in word) for word in self.text.split())


def read(path: Path) -> Iterator[Sentence]:
    """Yields the sentences of a Python file or of a Markdown page."""
    name = str(path.resolve().relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _of_page(name, text)
    else:
        tree = ast.parse(text)
        yield from _of_docstrings(name, tree)
        yield from _of_comments(name, text)
        yield from _of_messages(name, tree)


def check(sentence: Sentence) -> Iterator[str]:
    """Yields the rules that a sentence breaks.

    Every sentence has at most 25 words, at most one colon or semicolon, and no phrase of
    `RIDDLES`. The first one of a docstring has at most 20 words and no pronoun for a noun. A cell
    of a table has at most 25 words.
    """
    length = sentence.length
    limit = LONGEST_FIRST_SENTENCE if sentence.is_first else LONGEST_SENTENCE
    if length > limit:
        yield f"{length} words; at most {limit}"
    if sentence.is_first and (found := PRONOUNS.search(sentence.text)):
        yield f"{found[0]!r} stands for a noun; name the noun"
    if (
        sentence.kind in ("docstring", "comment", "page")
        and len(re.findall(r"[;:](?=\s)", sentence.text)) > 1
    ):
        yield "more than one colon or semicolon; make two sentences"
    if not sentence.is_first and not sentence.text.endswith("?"):
        for found in FREE_RELATIVE.finditer(sentence.text):
            if (found["before"] or "").strip().lower() not in ASKING:
                yield f"{found['what']!r} stands for a noun; name the noun"
                break
    for riddle, plain in _RIDDLES.items():
        if found := riddle.search(sentence.text):
            yield f"{found[0]!r}: say {plain}"


def split(text: str) -> list[str]:
    """Splits a paragraph into sentences."""
    found: list[str] = []
    for part in _END.split(" ".join(text.split())):
        if found and _ABBREVIATED.search(found[-1]):
            found[-1] += f" {part}"
        else:
            found.append(part)
    return [part for part in found if part]


def _plain(text: str) -> str:
    return _CODE.sub("CODE", _LINK.sub(r"\1", text))


def _of_docstrings(path: str, tree: ast.Module) -> Iterator[Sentence]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                line = node.body[0].lineno
                yield from _of_docstring(path, line, text, is_first=True)
        if isinstance(node, ast.Module | ast.ClassDef):
            # The text behind a field says what the field is.
            for before, one in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(before, ast.Assign | ast.AnnAssign)
                    and isinstance(one, ast.Expr)
                    and isinstance(one.value, ast.Constant)
                    and isinstance(one.value.value, str)
                ):
                    yield from _of_docstring(path, one.lineno, one.value.value, is_first=True)


def _of_docstring(path: str, line: int, text: str, *, is_first: bool) -> Iterator[Sentence]:
    for offset, paragraph in _paragraphs(text):
        for sentence in split(_plain(paragraph)):
            yield Sentence(path, line + offset, "docstring", sentence, is_first)
            is_first = False


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs of a docstring with their lines, without blocks of code."""
    kept: list[str] = []
    start = 0
    for number, raw in enumerate([*_without_code(text.expandtabs().splitlines()), ""]):
        row = raw.strip()
        starts = not row or _ITEM.match(raw) or _SECTION.match(row) or _FIELD.match(row)
        if starts and kept:
            yield start, " ".join(kept)
            kept = []
        if not row or _SECTION.match(row):
            continue
        if not kept:
            start = number
            is_field = raw != row and _FIELD.match(row)
            row = _FIELD.sub("", row) if is_field else _ITEM.sub("", raw, count=1).strip()
        kept.append(row)


def _without_code(lines: list[str]) -> Iterator[str]:
    """Yields the lines; examples, tables and literal blocks are empty."""
    literal: int | None = None
    is_fenced = is_shown = False
    for raw in lines:
        row = raw.strip()
        indent = len(raw) - len(raw.lstrip())
        if row.startswith("```"):
            is_fenced = not is_fenced
        if literal is not None and row and indent <= literal:
            literal = None
        if row == "\b":  # click shows the lines up to the next blank one as they are
            is_shown = True
        elif not row:
            is_shown = False
        if (
            is_shown
            or is_fenced
            or literal is not None
            or row.startswith((">>>", "...", "|", "$", "```"))
        ):
            yield ""
        elif row.endswith("::"):
            literal = indent
            yield raw.rstrip()[:-2] + "."
        else:
            yield raw


def _of_comments(path: str, text: str) -> Iterator[Sentence]:
    blocks: list[tuple[int, int, list[str]]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or _SILENT.match(token.string):
            continue
        line, column = token.start
        own = not token.line[:column].strip()
        said = token.string.lstrip("#").removeprefix(":")
        if (
            own
            and blocks
            and blocks[-1][0] + len(blocks[-1][2]) == line
            and blocks[-1][1] == column
        ):
            blocks[-1][2].append(said)
        else:
            blocks.append((line, column if own else -1, [said]))
    for line, _, rows in blocks:
        for offset, paragraph in _paragraphs("\n".join(row.removeprefix(" ") for row in rows)):
            for sentence in split(_plain(paragraph)):
                yield Sentence(path, line + offset, "comment", sentence)


def _of_messages(path: str, tree: ast.Module) -> Iterator[Sentence]:
    """Yields the texts of errors, log lines and help: every literal of six words and more."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for text, line in _literals(tree, docstrings):
        if re.search(r"[{}<>=\\|]\s|\n\s*\n?\s*[{#<>-]|^\s*[#/\[]", text) or len(text.split()) < 6:
            continue  # code: a template, a page, a graph
        for part in text.split("\n"):
            for sentence in split(_plain(part)):
                yield Sentence(path, line, "message", sentence)


def _literals(tree: ast.Module, docstrings: set[int]) -> Iterator[tuple[str, int]]:
    """Yields the texts that are no docstrings, with VALUE for each formatted value."""
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    for node in formatted:
        values = (p.value if isinstance(p, ast.Constant) else "VALUE" for p in node.values)
        yield "".join(map(str, values)), node.lineno
    others = docstrings | parts
    literals = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    for literal in literals:
        if isinstance(literal.value, str) and id(literal) not in others:
            yield literal.value, literal.lineno


def _of_page(path: str, text: str) -> Iterator[Sentence]:
    kept: list[str] = []
    start = 0
    for number, raw in enumerate([*_without_fences(text.splitlines()), ""], 1):
        row = raw.strip()
        if not row or _ITEM.match(raw) or row.startswith(("#", "|", "<", "!!!")):
            for sentence in split(_plain(" ".join(kept))):
                yield Sentence(path, start, "page", sentence)
            kept = []
        if row.startswith("|") and not set(row) <= set("|-: "):
            for cell in re.split(r"(?<!\\)\|", row.strip("|")):
                yield Sentence(path, number, "cell", _plain(cell.strip()))
        elif row and not row.startswith(("<", "#", "|", "[!", "!!!")):
            start = start if kept else number
            kept.append(_ITEM.sub("", raw, count=1).strip())


def _without_fences(lines: list[str]) -> Iterator[str]:
    """Yields the lines of a page; lines of code blocks are empty."""
    fence = None
    for raw in lines:
        mark = re.match(r"\s*(```+|~~~+)", raw)
        if fence is None and mark:
            fence = mark[1]
        elif fence is not None and mark and mark[1] == fence:
            fence = None
            yield ""
            continue
        yield "" if fence is not None else raw


def is_generated(path: Path) -> bool:
    """Tells whether ``docs/generate.py`` writes a page, from texts that are checked themselves."""
    return path.suffix == ".md" and "<!-- Written by docs/generate.py" in path.read_text("utf-8")


def files(names: Iterable[str]) -> Iterator[Path]:
    """Yields the Python files and pages at paths of the project, except for generated pages."""
    for name in names:
        path = (ROOT / name).resolve()
        found = (*path.rglob("*.py"), *path.rglob("*.md")) if path.is_dir() else (path,)
        for file in sorted(found):
            if "node_modules" not in file.parts and not is_generated(file):
                yield file


def main(names: list[str]) -> int:
    """Prints every sentence that breaks a rule.

    Args:
        names: Files and folders, from the root of the project.

    Returns:
        The exit code: 1 where a sentence breaks a rule.
    """
    count = 0
    for path in files(names):
        for sentence in read(path):
            for reason in check(sentence):
                count += 1
                sys.stdout.write(f"{sentence.path}:{sentence.line}: {reason}: {sentence.text}\n")
    sys.stderr.write(f"{count} findings\n")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
