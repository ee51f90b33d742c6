"""The versions behind a label: shares of the requests, and copies for shadow versions.

Example: ``stable=3@90``, ``stable=4@10`` and ``stable=5@shadow:20%``. Of 100 requests for the label
version 3 answers 90 and version 4 answers 10. Version 5 gets copies of 20, and its answers are
discarded.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from modelflow.errors import ConfigError
from modelflow.serve.requests.model import Model

WHOLE = 100
"""The weight of a single version, and the share of a shadow without a percentage."""

_TARGET = re.compile(r"(\d+)(?:@(?:([1-9]\d{0,3})|(shadow)(?::([1-9]\d?|100)%)?))?\Z")


class Split(NamedTuple):
    """The versions behind a label.

    Attributes:
        shares: The weights of the versions that answer, by version.
        shadows: The percentages of requests that shadow versions get a copy of, by version.
    """

    shares: Mapping[int, int]
    shadows: Mapping[int, int]

    @classmethod
    def of(cls, target: "int | Split") -> "Split":
        """Returns a split, also for a single version."""
        return target if isinstance(target, Split) else cls({target: WHOLE}, {})

    def document(self) -> list[list[tuple[int, int]]]:
        """Returns the split as JSON values."""
        return [[*self.shares.items()], [*self.shadows.items()]]


def read_split(where: str, targets: Iterable[str]) -> Split:
    """Returns the split of the targets of a label.

    Args:
        where: The option and the label, for messages.
        targets: ``3``, ``3@90``, ``5@shadow`` or ``5@shadow:20%``.

    Raises:
        ConfigError: A target has another form, a version occurs twice, several versions have no
            weight, or none answers.
    """
    shares: dict[int, int] = {}
    shadows: dict[int, int] = {}
    plain = 0
    for text in targets:
        found = _TARGET.match(text)
        if found is None:
            raise ConfigError(
                f"{where}: got {text!r}; expected VERSION, VERSION@WEIGHT or VERSION@shadow:20%"
            )
        version, weight, shadow, percent = found.groups()
        number = int(version)
        if number in shares or number in shadows:
            raise ConfigError(f"{where}: version {number} is given twice; give it once")
        plain += not (weight or shadow)
        if shadow:
            shadows[number] = int(percent or WHOLE)
        else:
            shares[number] = int(weight or WHOLE)
    if not shares:
        raise ConfigError(f"{where}: got shadow versions alone; expected a version that answers")
    if plain and len(shares) > 1:
        raise ConfigError(
            f"{where}: {len(shares)} versions, and one without a weight; give VERSION@WEIGHT"
        )
    return Split(shares, shadows)


class Label:
    """A label and its state: smooth weighted round-robin. For the server's thread.

    Weights 2 and 1 give the order A B A, A B A: each request adds the weights to the credits of
    their versions. The version with the most credit is taken, and pays the sum of the weights.
    """

    def __init__(self, split: Split) -> None:
        """Starts without credits."""
        self.split = split
        self._credits: dict[int, int] = {}
        self._copied = dict.fromkeys(split.shadows, 0)

    def choose(self, models: Mapping[int, Model]) -> Model | None:
        """Returns the loaded model for the next request, or None if no version is loaded."""
        shares = {number: one for number, one in self.split.shares.items() if number in models}
        if not shares:
            return None
        if self._credits.keys() != shares.keys():  # another version is loaded or gone
            self._credits = dict.fromkeys(shares, 0)
        for number, weight in shares.items():
            self._credits[number] += weight
        chosen = max(shares, key=self._credits.__getitem__)
        self._credits[chosen] -= sum(shares.values())
        return models[chosen]

    def find_main(self, models: Mapping[int, Model]) -> Model | None:
        """Returns the loaded model with the largest weight, or None if no version is loaded."""
        shares = self.split.shares
        loaded = [number for number in shares if number in models]
        return models[max(loaded, key=shares.__getitem__)] if loaded else None

    def choose_shadows(self, models: Mapping[int, Model]) -> list[Model]:
        """Returns the shadow models that get a copy of the next request."""
        found = []
        for number, percent in self.split.shadows.items():
            self._copied[number] += percent
            if self._copied[number] >= WHOLE:
                self._copied[number] -= WHOLE
                found += [models[number]] if number in models else []
        return found
