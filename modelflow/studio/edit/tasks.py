"""The tasks of the editor's pages: each takes a request and returns JSON values."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

from modelflow.config.edit.graph_text import GraphText, diff
from modelflow.draw.shapes import Point
from modelflow.errors import ConfigError
from modelflow.starters.template import TEMPLATES, read_template, write_files, write_template
from modelflow.studio.edit.catalog import catalog_of
from modelflow.studio.edit.clipping import copy
from modelflow.studio.edit.draft import Draft
from modelflow.studio.edit.graph_file import GraphFile
from modelflow.studio.edit.models.bring import (
    add_folder,
    bring_model,
    describe_model,
    home_of_units,
)
from modelflow.studio.edit.models.places import check_below, find_places
from modelflow.studio.edit.models.upload import write_upload
from modelflow.studio.edit.operations import Edited, apply_operations, is_place
from modelflow.studio.edit.trial.trials import Trials
from modelflow.studio.edit.view import view_of

Asked = Mapping[str, Any]
"""The request of a page."""


class BadTaskError(Exception):
    """A malformed task, which the editor's own pages never send."""


class Tasks:
    """The tasks of one editor, for one thread."""

    def __init__(self, file: GraphFile, trials: Trials) -> None:
        """Takes the edited file and the trial runs."""
        self._file = file
        self._trials = trials
        self.by_name: Mapping[str, Callable[[Asked], dict[str, Any]]] = {
            "open": self._open,
            "begin": self._begin,
            "look": lambda asked: self._view(_text(asked), asked),
            "edit": self._edit,
            "copy": self._copy,
            "units": self._units,
            "unit": self._unit,
            "places": self._places,
            "model": lambda asked: describe_model(self._draft(_text(asked)), _text(asked, "path")),
            "bring": self._bring,
            "upload": self._upload,
            "folder": lambda asked: add_folder(self._draft(_text(asked)), _text(asked, "path")),
            "save": self._save,
            "diff": self._diff,
            "stand": lambda _: file.read()._asdict(),
            "run": self._run,
            "passed": lambda asked: trials.describe_passed(
                _text(asked, "node"), _text(asked, "output")
            ),
        }

    # -- the text -------------------------------------------------------------------------------

    def _open(self, asked: Asked) -> dict[str, Any]:
        stand = self._file.read()
        templates = {name: _split_template(name, "graph") for name in TEMPLATES["graph"]}
        starters = [
            {"name": name, "about": tomllib.loads(text)["flow"]["desc"]}
            for name, (text, files) in templates.items()
            if not files or self._draft("").form == "toml"  # a DOT file names no folders of units
        ]
        return {
            "file": str(self._file.path),
            "saved": stand.text,
            "mark": stand.mark,
            "starters": [] if stand.mark else starters,
            "trial": self._trials.document(),
            **self._view(stand.text if stand.mark else self._start("empty")[0], asked),
        }

    def _begin(self, asked: Asked) -> dict[str, Any]:
        """Returns the graph of a starter, and writes its units."""
        text, files = self._start(_text(asked, "starter"))
        home = self._file.path.parent.resolve()
        contents = {home / path: data for path, data in files.items()}
        check_below(home, contents)
        written = write_files(contents, reused=contents)
        return {**self._view(text, asked), "files": self._names(written)}

    def _view(self, text: str, asked: Asked) -> dict[str, Any]:
        return view_of(self._draft(text, asked), _places(asked))

    def _start(self, starter: str) -> tuple[str, dict[PurePath, bytes]]:
        """Returns the text of a new graph, and the files of its units."""
        path = self._file.path
        name = "".join(letter if letter.isalnum() else "_" for letter in path.stem)
        name = name if name[:1].isalpha() else f"graph_{name}"
        text, files = _split_template(starter, name)
        if self._draft("").form == "dot":
            text = f"{tomllib.loads(text)['graph']['graphconf']}\n"
        return text, files

    def _edit(self, asked: Asked) -> dict[str, Any]:
        operations = _list(asked, "operations", dict, "objects")
        draft = self._draft(_text(asked))
        edited = apply_operations(draft.graph_text, operations, draft.units)
        places = _follow(_places(asked), draft.graph_text, edited)
        view = view_of(self._draft(edited.text.text, asked), places)
        return {**view, "added": list(edited.added)}

    def _copy(self, asked: Asked) -> dict[str, Any]:
        nodes = _list(asked, "nodes", str, "names")
        return {"clipping": copy(self._draft(_text(asked)).graph_text, nodes)}

    def _save(self, asked: Asked) -> dict[str, Any]:
        text = _text(asked)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"the text cannot be written as UTF-8: {error.reason} at {error.start}"
            ) from error
        return {"mark": self._file.write(text, _text(asked, "mark"))}

    def _diff(self, asked: Asked) -> dict[str, Any]:
        return {"diff": diff(_text(asked, "before"), _text(asked), self._file.path.name)}

    # -- units ----------------------------------------------------------------------------------

    def _units(self, asked: Asked) -> dict[str, Any]:
        self._trials.forget()
        return {**catalog_of(self._draft(_text(asked)).units), "kinds": list(TEMPLATES["unit"])}

    def _unit(self, asked: Asked) -> dict[str, Any]:
        """Writes a new unit into the first folder of units, and adds a folder if none is named."""
        text = _text(asked)
        draft = self._draft(text)
        if not draft.folders:
            text = draft.graph_text.add_folder("units").text
        kind, name = _text(asked, "kind"), _text(asked, "name")
        # A page asks again if the answer was lost, and finds the files of its first request.
        files = write_template("unit", kind, name, home_of_units(draft), reuse_equal=True)
        return {"text": text, "files": self._names(files)}

    # -- models ---------------------------------------------------------------------------------

    def _places(self, asked: Asked) -> dict[str, Any]:
        draft = self._draft(_text(asked))
        return find_places(draft.path.parent).document(draft.folders)

    def _bring(self, asked: Asked) -> dict[str, Any]:
        settings, at = asked.get("settings", {}), asked.get("at")
        if not isinstance(settings, dict):
            raise BadTaskError(f"settings: got {settings!r:.100}; expected an object")
        if at is not None and not is_place(at):
            raise BadTaskError(f"at: got {at!r:.100}; expected [x, y]")
        place = None if at is None else (float(at[0]), float(at[1]))
        draft = self._draft(_text(asked))
        brought = bring_model(draft, _text(asked, "path"), _text(asked, "use"), settings, place)
        return {**brought._asdict(), "files": self._names(brought.files)}

    def _upload(self, asked: Asked) -> dict[str, Any]:
        files = _list(asked, "files", dict, "objects")
        return {"paths": write_upload(self._file.path.parent, files)}

    def _names(self, files: Sequence[Path]) -> list[str]:
        home = self._file.path.parent.resolve()
        return [path.resolve().relative_to(home).as_posix() for path in files]

    # -- runs -----------------------------------------------------------------------------------

    def _run(self, asked: Asked) -> dict[str, Any]:
        samples = asked.get("samples")
        if not isinstance(samples, dict):
            raise BadTaskError("samples: expected an object")
        is_repeated = asked.get("repeat") is True
        self._trials.begin(self._draft(_text(asked), asked), samples, is_repeated=is_repeated)
        return self._trials.document()

    def _draft(self, text: str, asked: Asked = MappingProxyType({})) -> Draft:
        given = asked.get("args", {})
        if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
            raise BadTaskError("args: expected an object of texts")
        return Draft(text, self._file.path, given)


def _split_template(template: str, name: str) -> tuple[str, dict[PurePath, bytes]]:
    """Returns the text of a graph's template, and its other files."""
    files = read_template("graph", template, name)
    return files.pop(PurePath(f"{name}.toml")).decode(), files


def _places(asked: Asked) -> dict[str, Point]:
    places = asked.get("places", {})
    if not isinstance(places, dict) or not all(map(is_place, places.values())):
        raise BadTaskError("places: expected [x, y] by node")
    return {node: (float(x), float(y)) for node, (x, y) in places.items()}


def _follow(places: dict[str, Point], before: GraphText, edited: Edited) -> dict[str, Point]:
    """Returns the places of the last picture by the nodes' new names.

    A node that has lost its position in the file has none. After ``tidy`` no node has one.
    """
    if edited.is_tidied:
        return {}
    unpinned = [node for node, given in before.nodes.items() if "pos" in given]
    for old, new in edited.renames:
        unpinned = [new if node == old else node for node in unpinned]
        if old in places:
            places[new] = places.pop(old)
    return {node: place for node, place in places.items() if node not in unpinned}


def _list(asked: Asked, key: str, kind: type, words: str) -> list[Any]:
    values = asked.get(key)
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise BadTaskError(f"{key}: expected a list of {words}")
    return values


def _text(asked: Asked, key: str = "text") -> str:
    value = asked.get(key)
    if not isinstance(value, str):
        raise BadTaskError(f"{key}: got {value!r:.100}; expected a text")
    return value
