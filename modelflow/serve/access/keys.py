"""API keys and the groups of endpoints that each key opens.

A key file has one key per line. The groups that the key opens may precede the key. Limits on its
requests and rows may follow the key::

    # everything
    5f1d0c6b9e
    # Prometheus
    metrics 0b7a44c1d2
    infer,metrics 91e0c2aa37
    infer c41a9d0e77 requests=100/s rows=5000/m
"""

import hashlib
import hmac
import logging
import re
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from modelflow.errors import ConfigError, did_you_mean
from modelflow.serve.access.quotas import FORMS, MOST_KEYS, Limit, Quota, read_limit
from modelflow.serve.access.shared_counts import SharedCounts
from modelflow.wire.problem import Code, refuse

logger = logging.getLogger(__name__)

_BEARER = "bearer "
# A key may contain = only as the padding of base64 if it follows a group.
_LIKE_LIMIT = re.compile(r"\w+=[^=]", re.ASCII)


class Group(StrEnum):
    """A group of endpoints that a key can open."""

    INFER = "infer"
    """Inference, and the metadata of models."""
    REPOSITORY = "repository"
    """The repository index, loading and unloading, and replacing the ``models.config``."""
    METRICS = "metrics"
    """The metrics and statistics."""


class Access(NamedTuple):
    """The rights of a key.

    Attributes:
        groups: The groups that the key opens.
        quota: The limits of the key, or None.
    """

    groups: frozenset[Group]
    quota: Quota | None


class Keys:
    """The keys of a file. Call `check` on the server's thread, and `read` on any thread."""

    def __init__(self, path: Path, counts: SharedCounts | None = None) -> None:
        """Reads the file.

        Args:
            path: The file.
            counts: The counters of all processes, for limits. None for counters of this object.

        Raises:
            ConfigError: The file cannot be read, or a line is invalid.
        """
        self.path = path
        self._counts = SharedCounts() if counts is None else counts
        self._reading = threading.Lock()
        self._known: dict[bytes, Access] = _read(path, self._counts)

    def read(self) -> None:
        """Reads the file again. On an error, keeps the old keys and logs the error."""
        with self._reading:
            try:
                self._known = _read(self.path, self._counts)
            except ConfigError as error:
                logger.error("%s; the previous keys stay valid", error)
            else:
                logger.info("%s: %d keys", self.path, len(self._known))

    def check(self, key: str | None, group: Group) -> Quota | None:
        """Checks that a key opens a group, and returns the limits of the key.

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
        found: Access | None = None
        for digest, access in self._known.items():
            if hmac.compare_digest(digest, given):
                found = access
        if found is None:
            refuse("the API key is not known", Code.UNAUTHENTICATED)
        if group not in found.groups:
            refuse(
                f"the API key does not open this: it is for {_names(found.groups)}, not for "
                f"{group}",
                Code.PERMISSION_DENIED,
            )
        return found.quota


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


def _read(path: Path, counts: SharedCounts) -> dict[bytes, Access]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"API keys {path}: cannot be read: {reason}") from error
    found: dict[bytes, Access] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"API keys {path}:{number}"
        key, groups, limits = _of_words(words, where)
        digest = _digest(key)
        if digest in found:
            raise ConfigError(f"{where}: the key repeats an earlier line; expected every key once")
        found[digest] = Access(groups, Quota(digest, limits, counts) if limits else None)
    if not found:
        raise ConfigError(
            f"API keys {path}: the file has no key; expected a line: KEY, or GROUPS KEY"
        )
    if (limited := sum(one.quota is not None for one in found.values())) > MOST_KEYS:
        raise ConfigError(
            f"API keys {path}: {limited} keys have limits; expected at most {MOST_KEYS}"
        )
    return found


def _of_words(words: list[str], where: str) -> tuple[str, frozenset[Group], list[Limit]]:
    # Messages must not show a word that may be a key: logs are less protected than the file.
    is_group = set(words[0].split(",")) <= set(Group)
    is_alone = not is_group and (len(words) == 1 or _LIKE_LIMIT.match(words[1]) is not None)
    place = 0 if is_alone else 1
    if place == len(words):
        raise ConfigError(f"{where}: got a group and no key; expected KEY, or GROUPS KEY")
    key, rest = words[place], words[place + 1 :]
    if set(key.split(",")) <= set(Group):
        raise ConfigError(f"{where}: got a group and no key; expected KEY, or GROUPS KEY")
    if read_limit(key) is not None:
        raise ConfigError(f"{where}: got a limit and no key; expected KEY LIMIT...")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"{where}: a key that headers cannot carry; expected printable ASCII characters"
        )
    groups = frozenset(Group) if is_alone else frozenset(_groups(words[0], where))
    return key, groups, _limits(rest, groups, where, place + 2)


def _limits(words: Sequence[str], groups: frozenset[Group], where: str, first: int) -> list[Limit]:
    """Returns the limits behind a key. ``first`` is the number of the first word in its line."""
    found: dict[int, Limit] = {}
    for number, word in enumerate(words, first):
        limit = read_limit(word)
        if limit is None:
            raise ConfigError(
                f"{where}: word {number} is no limit; expected {FORMS}, with N from 1 (the line is "
                "KEY LIMIT..., or GROUPS KEY LIMIT...)"
            )
        if limit.column in found:
            raise ConfigError(
                f"{where}: word {number} limits {limit.resource.name.lower()}/{limit.unit} again; "
                "expected each limit once"
            )
        found[limit.column] = limit
    if found and Group.INFER not in groups:
        raise ConfigError(
            f"{where}: got a limit for a key without the group infer; limits count inference "
            "requests only"
        )
    return list(found.values())


def _groups(text: str, where: str) -> list[Group]:
    return [_group(name, where) for name in text.split(",")]


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
