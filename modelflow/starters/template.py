"""Writes new units, graphs and applications from templates, folders below ``templates/``.

In files and file names ``@NAME@`` stands for the name of the new unit, graph or application, and
``@CLASS@`` for the name of its class. The suffix ``.tmpl`` is removed. With it, tools do not
treat a template as Python. A file with the suffix ``.from`` stands for a file that comes with
modelflow: its content is the path below `ready_graphs`.
"""

import importlib.util
import keyword
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath
from types import MappingProxyType

from modelflow.errors import ConfigError, did_you_mean
from modelflow.files.whole_file import write_whole
from modelflow.starters.ready import ready_graphs

TEMPLATES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "unit": {
            kind: (kind,)
            for kind in (
                *("normal", "stream", "condition", "expand", "collapse", "loop"),
                *("source", "sink", "inference", "c++"),
            )
        },
        "model": {
            library: (library,)
            for library in (
                *("python", "sklearn", "xgboost", "safetensors"),
                *("transformers-image", "transformers-embedding"),
            )
        },
        "graph": {
            "empty": ("empty",),
            "classify": ("shapes", "classify"),
            "objects": ("shapes", "objects"),
            **{kind: (kind,) for kind in ("images", "files", "http", "video")},
        },
        "application": {
            "batch": ("pictures", "batch"),
            "http": ("pictures", "http"),
            "flask": ("pictures", "flask"),
            "video": ("video",),
            "text": ("text",),
        },
    }
)
"""The kinds of new things, their templates, and the folders of each, the last with precedence."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


def read_template(what: str, template: str, name: str) -> dict[PurePath, bytes]:
    """Returns the files of a filled template, by their paths.

    Args:
        what: A key of `TEMPLATES`.
        template: One of its templates.
        name: The name of the new unit, graph or application.

    Raises:
        ConfigError: no template has that name.
    """
    known = TEMPLATES[what]
    if template not in known:
        near = did_you_mean(template, known)
        raise ConfigError(f"template: got {template!r}{near}; expected one of {', '.join(known)}")
    cls = "".join(part.capitalize() for part in name.split("_"))

    def fill(text: str) -> str:
        return text.replace("@NAME@", name).replace("@CLASS@", cls)

    root = files(__package__) / "templates" / what
    contents: dict[PurePath, bytes] = {}
    for folder in known[template]:
        for path, file in _walk(root / folder, PurePath()):
            text = fill(file.read_text(encoding="utf-8"))
            if path.suffix == ".from":
                contents[path.with_suffix("")] = (ready_graphs() / text.strip()).read_bytes()
            else:
                contents[PurePath(fill(str(path)).removesuffix(".tmpl"))] = text.encode()
    return {path: contents[path] for path in sorted(contents)}


def write_template(
    what: str, template: str, name: str, folder: Path, *, reuse_equal: bool = False
) -> list[Path]:
    """Writes a new unit, graph or application; if a write fails, no file remains.

    Args:
        what: A key of `TEMPLATES`.
        template: One of its templates.
        name: Lower-case letters, digits and ``_``.
        folder: The folder for a graph, or for the folder of a unit or an application.
        reuse_equal: Whether equal files may exist. They are left alone, and are not returned.

    Returns:
        The written files.

    Raises:
        ConfigError: the name is invalid, no template has that name, or a file already exists.
            An equal file of a graph's units is no error.
    """
    if not _NAME.match(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"name: got {name!r}; expected lower-case letters, digits and '_', beginning with a "
            "letter, 64 at most, and no word of Python's own"
        )
    if what == "model" and is_module(name):
        raise ConfigError(
            f"name: got {name!r}, the name of a module; expected another, such as model_{name}, "
            f"because a file {name}.py would hide the module"
        )
    place = folder if what == "graph" else folder / name
    template_files = read_template(what, template, name)
    own = PurePath(f"{name}.toml")
    return write_files(
        {place / path: contents for path, contents in template_files.items()},
        reused={
            place / path
            for path in template_files
            if reuse_equal or (what == "graph" and path != own)
        },
    )


def write_files(contents: Mapping[Path, bytes], reused: Collection[Path] = ()) -> list[Path]:
    """Writes new files, and returns their paths; if a write fails, no file remains.

    Args:
        contents: The contents of each file.
        reused: The files that may exist with these contents, and are then left alone.

    Raises:
        ConfigError: A file already exists, or cannot be written.
    """
    new = []
    for path, data in contents.items():
        if not os.path.exists(path):
            new.append(path)
        elif path not in reused:
            raise ConfigError(f"{path}: is there already; nothing was written")
        elif not _has(path, data):
            raise ConfigError(
                f"{path}: is there already with other contents; nothing was written. Remove or "
                "rename that file first"
            )
    written: list[Path] = []
    for path in new:
        try:
            write_whole(path, contents[path])
        except OSError as error:
            for one in written:
                one.unlink(missing_ok=True)
            raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
        written.append(path)
    return written


def _has(path: Path, contents: bytes) -> bool:
    try:
        is_same_size = path.is_file() and path.stat().st_size == len(contents)
        return is_same_size and path.read_bytes() == contents
    except OSError:  # the file cannot be read
        return False


def is_module(name: str) -> bool:
    """Tells whether Python or an installed package has a module of a name."""
    if name in sys.stdlib_module_names:
        return True
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None  # None: any folder of that name


def _walk(folder: Traversable, path: PurePath) -> Iterator[tuple[PurePath, Traversable]]:
    for entry in folder.iterdir():
        if not entry.is_dir():
            yield path / entry.name, entry
        elif entry.name != "__pycache__":
            yield from _walk(entry, path / entry.name)
