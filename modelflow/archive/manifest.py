"""The description of an archive: its file ``modelflow.json``, read without trust."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from modelflow.errors import ConfigError

MANIFEST = "modelflow.json"
LOCK = "requirements.lock"

# The version of the archive format. Archives of other versions are refused.
_FORM = 1
_MOST_NAME, _MOST_PART = 1024, 255
_SHA256 = re.compile(r"[0-9a-f]{64}")
# These texts are written into images, systemd units and lists of packages. They contain no
# characters with a special meaning there.
_VERSION = re.compile(r"\d[0-9A-Za-z.!+]{0,99}", re.ASCII)
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_SPECIFIER = r" *(?:[<>~=!]=|===|<|>) *\d[0-9A-Za-z.!+]{0,99}(?:\.\*)? *"
_SPECIFIERS = re.compile(rf"{_SPECIFIER}(?:,{_SPECIFIER}){{0,19}}", re.ASCII)
_TITLE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,255}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")  # not encodable in UTF-8
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file of an archive: the size in bytes and the hash."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of an archive.

    Attributes:
        modelflow: The version that packed the archive.
        python: The supported versions of Python, as in ``Requires-Python``.
        name: The graph's name.
        graph: The graph file's name in the archive.
        files: All other files by name. A name is a path from the archive's top, with ``/``.
        overrides: The values of ``--set`` at packing.
        args: The values of ``--arg`` at packing.
        inputs, outputs: The graph's inputs and outputs, as far as known without its models:
            ``name``, and ``datatype``, ``shape``, ``description``, ``labels`` if known.
        extras: The extras of modelflow that the units need.
        packages: Names of other distributions that the Python files import.
        modules: Folders of the archive that contain modules of the units.
    """

    modelflow: str
    python: str
    name: str
    graph: str
    files: Mapping[str, PackedFile]
    overrides: Mapping[str, str] = field(default_factory=dict)
    args: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Mapping[str, Any], ...] = ()
    outputs: tuple[Mapping[str, Any], ...] = ()
    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The total size of all files in bytes."""
        return sum(file.size for file in self.files.values())

    def fields(self) -> dict[str, Any]:
        """Returns the fields as JSON values."""
        return {"form": _FORM, **asdict(self)}

    def to_bytes(self) -> bytes:
        """Returns the text of ``modelflow.json``, which is the same for equal manifests."""
        text = json.dumps(self.fields(), indent=1, sort_keys=True, ensure_ascii=False)
        return text.encode() + b"\n"

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> "Manifest":
        """Reads ``modelflow.json``.

        Args:
            raw: The text.
            where: The archive, for messages.

        Raises:
            ConfigError: The text has another form than this version reads.
        """
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{where}: {MANIFEST}: is no JSON ({error}); pack the graph again"
            ) from error
        if not isinstance(found, dict) or found.get("form") != _FORM:
            form = found.get("form") if isinstance(found, dict) else found
            raise ConfigError(
                f"{where}: {MANIFEST}: got the form {form!r:.40}; this version of modelflow reads "
                f"the form {_FORM}: pack the graph again, or install the version that packed it"
            )
        del found["form"]
        for key, value in found.items():
            check, expected = _KEYS.get(key, (lambda _: False, f"one of {', '.join(_KEYS)}"))
            if not check(value):
                raise ConfigError(
                    f"{where}: {MANIFEST}: {key}: got {value!r:.80}; expected {expected}"
                )
        if missing := sorted(_KEYS.keys() - found.keys()):
            raise ConfigError(f"{where}: {MANIFEST}: got no {missing[0]!r}; pack the graph again")
        files = {name: PackedFile(**file) for name, file in found.pop("files").items()}
        listed = {key: tuple(value) for key, value in found.items() if isinstance(value, list)}
        manifest = cls(**{**found, **listed}, files=files)
        manifest._check_names(where)
        return manifest

    def _check_names(self, where: str) -> None:
        for name in self.files:
            if problem := name_problem(name):
                raise ConfigError(f"{where}: {MANIFEST}: file {name!r:.200}: {problem}")
        if self.graph not in self.files:
            raise ConfigError(
                f"{where}: {MANIFEST}: graph: got {self.graph!r}, which is not among its files"
            )
        for folder in self.modules:
            if folder != "." and name_problem(folder):
                raise ConfigError(
                    f"{where}: {MANIFEST}: modules: {folder!r:.200}: {name_problem(folder)}"
                )


def name_problem(name: str) -> str:  # noqa: PLR0911 - a rule each
    """Returns the problem of a file name in an archive, or ``""`` if the name is valid."""
    parts = name.split("/")
    if not name or _SURROGATE.search(name) or len(name.encode()) > _MOST_NAME:
        return f"expected a name of 1 to {_MOST_NAME} bytes of UTF-8"
    if name.startswith("/") or name[1:2] == ":":
        return "is an absolute path; expected one from the archive's top"
    if not {"", ".", ".."}.isdisjoint(parts):
        return "expected a plain path from the archive's top, without '.', '..' and empty parts"
    if _CONTROL.search(name):
        return "expected no backslashes and control characters"
    if any(len(part.encode()) > _MOST_PART for part in parts):
        return f"a part of it is longer than {_MOST_PART} bytes"
    if any(part[:1] == "." or part == "__pycache__" for part in parts):
        return "is hidden, or a cache; an archive holds no such files"
    return "is the manifest's own name" if name == MANIFEST else ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_all(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _fits(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: _is_text(value) and pattern.fullmatch(value) is not None


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_port(value: Any) -> bool:
    return isinstance(value, dict) and _fits(_TITLE)(value.get("name"))


def _is_files(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(file, dict)
        and file.keys() == {"size", "sha256"}
        and type(file["size"]) is int
        and file["size"] >= 0
        and _is_text(file["sha256"])
        and _SHA256.fullmatch(file["sha256"])
        for file in value.values()
    )


_KEYS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "modelflow": (_fits(_VERSION), "a version as in '1.2.0'"),
    "python": (_fits(_SPECIFIERS), "versions as in '>=3.11'"),
    "name": (_fits(_TITLE), "a text of 1 to 255 letters without control characters"),
    "graph": (_is_text, "a text"),
    "extras": (_are_all(_fits(_DISTRIBUTION)), "a list of names as in 'onnx'"),
    "packages": (
        _are_all(_fits(_DISTRIBUTION)),
        "a list of names of distributions as in 'opencv-python'",
    ),
    "modules": (_are_all(_is_text), "a list of texts"),
    **dict.fromkeys(("overrides", "args"), (_is_table, "texts by name")),
    **dict.fromkeys(
        ("inputs", "outputs"), (_are_all(_is_port), "a list of ports, each with its name")
    ),
    "files": (_is_files, "by name: size, a whole number, and sha256, 64 hexadecimal digits"),
}
