"""Names and sentences are plain, by the rules of `tests.prose`; folders are small."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import prose

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "modelflow"

# ModelBox's names are its own; templates are files of users.
FOREIGN = ("compat", "templates")

# Metaphors that once stood for a noun of the field (right), as words of a name.
METAPHORS = {
    "arena": "SharedMemoryWriter",
    "assembly": "Coordinator",
    "asker": "Responder",
    "catalogue": "ServeConfig",
    "census": "GroupCounts",
    "colleagues": "Peers",
    "convoy": "RequestBatch",
    "door": "InheritedConnections",
    "doorway": "TlsHandshake",
    "edition": "ModelVersion",
    "entrant": "SessionEntry",
    "fleet": "ReplicaGroup",
    "gallery": "SharedMemoryReader",
    "gang": "RequestBatch",
    "gangway": "SubmitQueue",
    "greeter": "ActorLoader",
    "hatch": "FdChannel",
    "herald": "ServiceNotifier",
    "lookout": "RepositoryPoller",
    "mailbox": "LoopQueue",
    "messenger": "RpcClient",
    "mirror": "RemoteModels",
    "outflow": "StreamingResponse",
    "porter": "Acceptor",
    "reception": "Middleware",
    "rests": "IdleWorkers",
    "roster": "ModelDirectory",
    "seat": "WorkerSlot",
    "shelf": "VersionManager",
    "stander": "SlotOwner",
    "switchboard": "MethodTable",
    "visit": "RequestContext",
}

# Irregular participles; the regular ones end in "ed".
_IRREGULAR = """
begun bound brought built chosen done drawn driven fed found forgotten given gone grown heard held
hidden hung kept known laid led left lent lost made meant met paid said seen sent shown spoken stood
sung taken thrown told torn understood woken won worn written
"""
IRREGULAR = frozenset(_IRREGULAR.split())
NO_PARTICIPLES = frozenset(
    {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
)


def modules() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if not set(FOREIGN) & set(path.relative_to(PACKAGE).parts):
            yield path


def definitions(path: Path) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def words(name: str) -> list[str]:
    """Returns the words of ``snake_case`` and ``CamelCase``, small."""
    parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    return [part.lower() for part in parts]


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (word.endswith("ed") and word not in NO_PARTICIPLES)


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def test_no_name_is_a_metaphor():
    found = []
    for path in modules():
        names = [path.stem, path.parent.name, *(node.name for node in definitions(path))]
        found += [
            f"{path.relative_to(ROOT)}: {name}: say {METAPHORS[word]}"
            for name in names
            for word in words(name)
            if word in METAPHORS
        ]
    assert sorted(set(found)) == []


def test_functions_are_verbs():
    found = []
    for path in modules():
        for node in definitions(path):
            if isinstance(node, ast.ClassDef) or is_property(node):
                continue
            first = (words(node.name) or [""])[0]
            if is_participle(first):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
    assert found == []


@pytest.mark.parametrize("name", ["told", "wrapped", "_taken_away", "counted_at"])
def test_a_participle_is_noticed(name):
    assert is_participle(words(name)[0])


@pytest.mark.parametrize("name", ["wrap", "on_result", "is_bound", "feed", "read_text", "embed"])
def test_a_verb_is_none(name):
    assert not is_participle(words(name)[0])


def test_a_folder_has_at_most_12_files_beside_its_folders():
    sizes = {
        str(folder.relative_to(ROOT)): len(list(folder.glob("*.py")))
        for folder in (PACKAGE, *PACKAGE.rglob("*/"))
    }
    assert {folder: size for folder, size in sizes.items() if size > 12} == {}


def test_every_folder_says_what_it_holds():
    silent = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("__init__.py")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_what_a_folder_says_names_files_that_are_there():
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in PACKAGE.rglob("__init__.py")
        for name in re.findall(
            r"``([a-z_0-9/]+\.py)``",
            ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "",
        )
        if not any((place / name).exists() for place in (path.parent, PACKAGE))
    ]
    assert missing == []


def test_the_architecture_is_short_and_names_files_that_are_there():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 2500
    named = {
        name.rstrip("/") for name in re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", text) if "/" in name
    }
    places = (PACKAGE, ROOT, *(path for path in PACKAGE.rglob("*/") if path.is_dir()))
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert sorted(missing) == []


SOURCES = ("modelflow", "flowunits", "graphs", "examples", "benchmarks", "tests", "docs", "changes")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")


@pytest.mark.parametrize("source", [*SOURCES, *PAGES])
def test_sentences_are_plain(source):
    found = [
        f"{sentence.path}:{sentence.line}: {reason}: {sentence.text}"
        for path in prose.files([source])
        for sentence in prose.read(path)
        if source != "tests" or sentence.kind != "message"  # samples, and messages of the product
        for reason in prose.check(sentence)
    ]
    assert found == []


def read_text(text, suffix, tmp_path):
    path = tmp_path / f"sample{suffix}"
    path.write_text(text)
    return list(prose.read(path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Returns what a client sent.", "'what' stands for a noun"),
        ("Returns the last one of them.", "'one' stands for a noun"),
        ("Returns " + "a very " * 11 + "long sentence.", "25 words; at most 20"),
        ("Returns a name.\n\n    Clients are told of errors.", "'told of': say logged"),
        ("Returns a name.\n\n    A: it is b; c, d; e.", "more than one colon or semicolon"),
        ("Returns a name.\n\n    This is what is there.", "'what' stands for a noun"),
        ("Returns a name.\n\n    One " + "and one " * 13, "27 words; at most 25"),
    ],
)
def test_a_riddle_in_a_docstring_is_found(text, reason, tmp_path):
    sentences = read_text(f'def f():\n    """{text}"""\n', ".py", tmp_path)
    found = [reason for sentence in sentences for reason in prose.check(sentence)]
    assert len(found) == 1
    assert found[0].startswith(reason)


@pytest.mark.parametrize(
    "text",
    [
        "Returns one batch of rows, named by ``who`` or ``it``.",
        "Returns the time.\n\n    Shows what limits the graph.",
        "Returns the time.\n\n    Args:\n        it: The time; 0 if unset.",
        "Returns the time.\n\n    Example::\n\n        what; is: this; code: here",
        "Returns the time, e.g. in seconds. What does it cost?",
    ],
)
def test_a_plain_docstring_passes(text, tmp_path):
    sentences = read_text(f'def f():\n    """{text}"""\n', ".py", tmp_path)
    assert [reason for sentence in sentences for reason in prose.check(sentence)] == []


def test_sentences_are_read_from_docstrings_comments_and_messages(tmp_path):
    text = '''"""Describes a module."""

LIMIT = 3
"""The most rows of a batch."""


def f(x):
    """Returns x.

    Args:
        x: A number. Any number.
    """
    # The lock is taken first, because
    # another thread may stop the flow.
    if x:
        raise ValueError(f"x: got {x} of the rows; expected at most 3 rows")
    return x  # noqa: RET504
'''
    found = [(s.kind, s.line, s.is_first, s.text) for s in read_text(text, ".py", tmp_path)]
    assert sorted(found) == sorted(
        [
            ("docstring", 1, True, "Describes a module."),
            ("docstring", 4, True, "The most rows of a batch."),
            ("docstring", 8, True, "Returns x."),
            ("docstring", 11, False, "A number."),
            ("docstring", 11, False, "Any number."),
            (
                "comment",
                13,
                False,
                "The lock is taken first, because another thread may stop the flow.",
            ),
            ("message", 16, False, "x: got VALUE of the rows; expected at most 3 rows"),
        ]
    )


def test_sentences_are_read_from_pages(tmp_path):
    text = """# A title

One sentence with a [link](there.md). Another
one: `code; in: it`.

- An item.

| cell | `a` and b |
|---|---|

```text
no; prose: here; at: all
```
"""
    found = [(s.kind, s.line, s.text) for s in read_text(text, ".md", tmp_path)]
    assert found == [
        ("page", 3, "One sentence with a link."),
        ("page", 3, "Another one: CODE."),
        ("page", 6, "An item."),
        ("cell", 8, "cell"),
        ("cell", 8, "CODE and b"),
    ]
