"""API keys and the groups of endpoints that each key opens.

A key file has one key per line. The groups that the key opens may precede the key::

    # everything
    5f1d0c6b9e
    # Prometheus
    metrics 0b7a44c1d2
    infer,metrics 91e0c2aa37
"""

import hashlib
import hmac
import logging
import threading
from enum import StrEnum
from pathlib import Path

from modelflow.errors import ConfigError, did_you_mean
from modelflow.wire.problem import Code, refuse

logger = logging.getLogger(__name__)

_BEARER = "bearer "


class Group(StrEnum):
    """A group of endpoints that a key can open."""

    INFER = "infer"
    """Inference, and the metadata of models."""
    REPOSITORY = "repository"
    """The repository index, loading and unloading, and replacing the ``models.config``."""
    METRICS = "metrics"
    """The metrics and statistics."""


class Keys:
    """The keys of a file. Call `check` on the server's thread, and `read` on any thread."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            ConfigError: The file cannot be read, or a line is invalid.
        """
        self.path = path
        self._reading = threading.Lock()
        self._groups: dict[bytes, frozenset[Group]] = _read(path)

    def read(self) -> None:
        """Reads the file again. On an error, keeps the old keys and logs the error."""
        with self._reading:
            try:
                self._groups = _read(self.path)
            except ConfigError as error:
                logger.error("%s; the previous keys stay valid", error)
            else:
                logger.info("%s: %d keys", self.path, len(self._groups))

    def check(self, key: str | None, group: Group) -> None:
        """Checks that a key opens a group.

        The check compares all keys. Its duration therefore does not depend on the matching key.

        Raises:
            Problem: The key does not open the group.
        """
        if key is None:
            refuse(
                "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY",
                Code.UNAUTHENTICATED,
            )
        given = _digest(key)
        found: frozenset[Group] | None = None
        for digest, groups in self._groups.items():
            if hmac.compare_digest(digest, given):
                found = groups
        if found is None:
            refuse("the API key is not known", Code.UNAUTHENTICATED)
        if group not in found:
            refuse(
                f"the API key does not open this: it is for {_names(found)}, not for {group}",
                Code.PERMISSION_DENIED,
            )


def key_of(key: str | None, authorization: str | None) -> str | None:
    """Returns the key of a request, or None if the request has no key.

    Args:
        key: The header ``x-api-key``.
        authorization: The header ``Authorization``. Schemes other than ``Bearer`` are ignored.
    """
    if key is not None:
        return key.strip()
    if authorization is not None and authorization[: len(_BEARER)].lower() == _BEARER:
        return authorization[len(_BEARER) :].strip()
    return None


def _read(path: Path) -> dict[bytes, frozenset[Group]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"API keys {path}: cannot be read: {reason}") from error
    found: dict[bytes, frozenset[Group]] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"API keys {path}:{number}"
        key, groups = _of_words(words, where)
        if found.setdefault(_digest(key), groups) is not groups:
            raise ConfigError(f"{where}: the key repeats an earlier line; expected every key once")
    if not found:
        raise ConfigError(
            f"API keys {path}: the file has no key; expected a line: KEY, or GROUPS KEY"
        )
    return found


def _of_words(words: list[str], where: str) -> tuple[str, frozenset[Group]]:
    # Messages must not show a word that may be a key: logs are less protected than the file.
    *groups, key = words
    if len(groups) > 1:
        raise ConfigError(
            f"{where}: got {len(words)} words; expected KEY, or GROUPS KEY (infer,metrics KEY)"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"{where}: a key that headers cannot carry; expected printable ASCII characters"
        )
    if set(key.split(",")) <= set(Group):
        raise ConfigError(f"{where}: got a group and no key; expected KEY, or GROUPS KEY")
    if not groups:
        return key, frozenset(Group)
    return key, frozenset(_group(name, where) for name in groups[0].split(","))


def _group(name: str, where: str) -> Group:
    try:
        return Group(name)
    except ValueError as error:
        near = did_you_mean(name, map(str, Group))
        what = f"the group {name!r}" if near else "a word that is no group"
        raise ConfigError(f"{where}: got {what}; expected {', '.join(Group)}{near}") from error


def _names(groups: frozenset[Group]) -> str:
    return " and ".join(sorted(groups))


def _digest(key: str) -> bytes:
    """Returns the hash of a key, which is stored and compared.

    All hashes have one length. The time of a comparison therefore does not reveal a key's length.
    """
    return hashlib.sha256(key.encode()).digest()
