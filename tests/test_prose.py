"""Names are the field's nouns and verbs, and every folder is small and says what it holds."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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

# Public names, which stay, and names of asyncio's protocols.
KEPT = {
    "converted": "modelflow.image.tensor",
    "cropped": "modelflow.image.tensor",
    "padded": "modelflow.image.tensor",
    "resized": "modelflow.image.tensor",
    "scaled": "modelflow.image.tensor",
    "smoothly_resized": "modelflow.image",
    "turned": "modelflow.image.tensor",
    "found": "modelflow.device.Memory",
    "placed": "modelflow.remote",
    "connected": "modelflow.remote.ray",
}


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
            if isinstance(node, ast.ClassDef) or is_property(node) or node.name in KEPT:
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
