"""Limits on the requests and rows of an API key, exact over all processes of a server.

A limit holds within a fixed window of the wall clock, a second or a minute. With the limit
``requests=100/s``, the hundredth request of a second is answered and the next one is refused.
"""

import re
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from modelflow.serve.access.shared_counts import SLOTS, Counted, SharedCounts, slot_start
from modelflow.serve.requests.admission import OverloadedError
from modelflow.wire.problem import Code

MOST_KEYS = SLOTS // 2
"""The most keys with limits. Slots of keys that were removed become free after a minute."""

FORMS = "requests=N/s, requests=N/m, rows=N/s or rows=N/m"
"""The forms of a limit in a key file."""

_LIMIT = re.compile(r"(requests|rows)=(\d{1,15})/([sm])", re.ASCII)
_SECONDS = MappingProxyType({"s": 1, "m": 60})
_UNITS = MappingProxyType({"s": "second", "m": "minute"})
_DIGEST_WORDS = 2


class Resource(IntEnum):
    """A resource that a limit counts."""

    REQUESTS = 0
    ROWS = 1


class Limit(NamedTuple):
    """A limit of a key.

    Attributes:
        resource: The counted resource.
        most: The largest number in a window.
        unit: The window: ``s`` or ``m``.
    """

    resource: Resource
    most: int
    unit: str

    @property
    def seconds(self) -> int:
        """Returns the length of the window."""
        return _SECONDS[self.unit]

    @property
    def column(self) -> int:
        """Returns the place of window and count in the slot."""
        return _DIGEST_WORDS + 2 * (2 * self.resource + (self.unit == "m"))

    def __str__(self) -> str:
        return f"{self.resource.name.lower()}={self.most}/{self.unit}"


_COLUMNS = tuple(
    (limit.column, limit.seconds)
    for limit in (Limit(resource, 0, unit) for resource in Resource for unit in _SECONDS)
)


def read_limit(word: str) -> Limit | None:
    """Returns the limit of a word in a key file, or None if the word has another form."""
    found = _LIMIT.fullmatch(word)
    if found is None or not int(found[2]):
        return None
    return Limit(Resource[found[1].upper()], int(found[2]), found[3])


class QuotaError(OverloadedError):
    """The refusal of a request beyond a limit of its key: 429 or RESOURCE_EXHAUSTED."""

    def __init__(self, message: str, limit: Limit, retry_after: float) -> None:
        super().__init__(message, str(limit), retry_after, Code.RESOURCE_EXHAUSTED)


class Quota:
    """The limits of one key. Call the methods from any thread.

    Attributes:
        has_rows: Whether rows are limited.
    """

    def __init__(
        self,
        digest: bytes,
        limits: Sequence[Limit],
        counts: SharedCounts,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Stores the limits.

        Args:
            digest: The hash of the key, which identifies its slot.
            limits: The limits, at most one for each resource and unit.
            counts: The counters of all processes.
            now: The wall clock, which all processes share.
        """
        self.limits = tuple(limits)
        self._digest = tuple(int.from_bytes(digest[i : i + 8], "little") | 1 for i in (0, 8))
        self._by_resource = {r: [one for one in limits if one.resource is r] for r in Resource}
        self.has_rows = bool(self._by_resource[Resource.ROWS])
        self._counts = counts
        self._now = now
        self._home = self._place = self._digest[0] // 2 % SLOTS

    def take(self, resource: Resource, amount: int = 1) -> None:
        """Counts requests or rows.

        Raises:
            QuotaError: A limit would be exceeded. Nothing is counted then.
        """
        limits = self._by_resource[resource]
        if not limits:
            return
        with self._counts.lock() as words:
            now = self._now()  # inside the lock, because a window must not come back
            start = self._find(words, now)
            for limit in limits:
                if _count_used(words, start, limit, now) + amount > limit.most:
                    words[Counted(resource)] += 1
                    break
            else:
                for limit in limits:
                    used = _count_used(words, start, limit, now)
                    words[start + limit.column] = int(now // limit.seconds)
                    words[start + limit.column + 1] = used + amount
                return
        raise _refusal(limit, amount, now)

    def _find(self, words: memoryview, now: float) -> int:
        """Returns the first word of the key's slot. A new key occupies a free slot."""
        if self._is_own(words, slot_start(self._place)):
            return slot_start(self._place)
        free = None
        for step in range(SLOTS):
            place = (self._home + step) % SLOTS
            start = slot_start(place)
            if self._is_own(words, start):
                self._place = place
                return start
            if free is None and _is_free(words, start, now):
                free = place
            if not words[start]:  # never used: no later slot has the key
                break
        if free is None:
            text = "too many API keys with limits have changed within a minute; try again"
            raise OverloadedError(text, "quota", 1.0, Code.RESOURCE_EXHAUSTED)
        self._place, start = free, slot_start(free)
        words[start], words[start + 1] = self._digest
        for column, _ in _COLUMNS:
            words[start + column] = words[start + column + 1] = 0
        return start

    def _is_own(self, words: memoryview, start: int) -> bool:
        return (words[start], words[start + 1]) == self._digest


def _count_used(words: memoryview, start: int, limit: Limit, now: float) -> int:
    is_current = words[start + limit.column] == int(now // limit.seconds)
    return int(words[start + limit.column + 1]) if is_current else 0


def _is_free(words: memoryview, start: int, now: float) -> bool:
    """Returns whether all windows of a slot are over. Its key may then lose the slot."""
    return all(words[start + column] != int(now // seconds) for column, seconds in _COLUMNS)


def _refusal(limit: Limit, amount: int, now: float) -> QuotaError:
    seconds = limit.seconds - now % limit.seconds
    what, unit = limit.resource.name.lower(), _UNITS[limit.unit]
    if amount > limit.most:
        rest = f"this request has {amount}; send at most {limit.most} in a request"
    else:
        rest = f"the limit is reached; try again in the next {unit}"
    text = f"the API key may send {limit.most} {what} a {unit} ({limit}), and {rest}"
    return QuotaError(text, limit, seconds)
