"""The packages to install for an archive, in exactly the versions that are installed here."""

import importlib.metadata
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from modelflow.errors import ConfigError

_OWN = "modelflow-graph"
_MOST_BYTES = 16 << 20


def distributions_of(modules: Iterable[str]) -> tuple[set[str], set[str]]:
    """Returns the distributions that provide some modules, and the modules without distribution.

    Args:
        modules: Top-level names.
    """
    wanted = set(modules)
    # The call reads the file lists of all installed distributions, which takes a third of a second.
    known = importlib.metadata.packages_distributions() if wanted else {}
    found: set[str] = set()
    unknown: set[str] = set()
    for module in wanted:
        found |= {canonicalize_name(name) for name in known.get(module, ())}
        unknown |= set() if module in known else {module}
    return found, unknown


def list_supported_python() -> str:
    """Returns the versions of Python that modelflow supports.

    Raises:
        ConfigError: modelflow was not installed as a package.
    """
    return _find(_OWN, "a pack").metadata["Requires-Python"] or ">=3.11"


def lock_requirements(extras: Iterable[str], distributions: Iterable[str]) -> bytes:
    """Returns a ``requirements.lock`` of modelflow, other distributions, and their dependencies.

    Every version is the installed one.

    Args:
        extras: The extras of modelflow.
        distributions: The names of the other distributions.

    Raises:
        ConfigError: A distribution is not installed here, which leaves its version unknown, or
            modelflow has no such extra.
    """
    own = _find(_OWN, "requirements.lock")
    offered = own.metadata.get_all("Provides-Extra") or []
    wanted = tuple(sorted(extras))
    if unknown := [extra for extra in wanted if extra not in offered]:
        raise ConfigError(
            f"--extra {unknown[0]}: modelflow has no such extra; expected one of {offered}"
        )
    pins: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting: list[tuple[str, str, str]] = [(_OWN, extra, "requirements.lock") for extra in wanted]
    waiting += [(name, "", "requirements.lock") for name in sorted({_OWN, *distributions})]
    while waiting:
        name, extra, needed_for = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        distribution = _find(name, needed_for)
        # The part after "+" names a local build. pip treats all builds of a version alike.
        pins[name] = distribution.version.partition("+")[0]
        for requirement in _requirements(distribution, extra):
            needed = canonicalize_name(requirement.name)
            waiting += [(needed, one, name) for one in ("", *sorted(requirement.extras))]
    own_name = f"{_OWN}[{','.join(wanted)}]" if wanted else _OWN
    lines = [
        f"# What is installed with Python {platform.python_version()} on {sys.platform} "
        f"{platform.machine()}",
        *(f"{own_name if name == _OWN else name}=={pins[name]}" for name in sorted(pins)),
    ]
    return "\n".join(lines).encode() + b"\n"


def read_lock(path: Path) -> bytes:
    """Returns a lock file of another program unchanged.

    Raises:
        ConfigError: The file cannot be read, or is no text.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        raw.decode()
    except OSError as error:
        raise ConfigError(f"--lock {path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"--lock {path}: is no text; expected requirements as pip reads them"
        ) from error
    if len(raw) > _MOST_BYTES:
        raise ConfigError(
            f"--lock {path}: has more than {_MOST_BYTES} bytes; expected requirements"
        )
    return raw


def _find(name: str, needed_for: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigError(
            f"requirements.lock: {name!r}, which {needed_for} needs, is not installed here, so its "
            f"version is unknown; install it (pip install {name}) or give a list: --lock FILE"
        ) from error


def _requirements(
    distribution: importlib.metadata.Distribution, extra: str
) -> Iterator[Requirement]:
    """Yields the requirements of a distribution here, either its own or of an extra."""
    for text in distribution.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # of a package older than the standard; pip ignores it, too
            continue
        marker = requirement.marker
        is_plain = marker is None or marker.evaluate({"extra": ""})
        is_wanted = marker is None or marker.evaluate({"extra": extra})
        if is_wanted and (not extra or not is_plain):
            yield requirement
