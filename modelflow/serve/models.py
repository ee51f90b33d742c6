"""The models that a server has, by name and version."""

from collections.abc import Iterator

from modelflow.serve.served_model import ServedModel
from modelflow.wire.problem import Code, Problem

__all__ = ["Models"]

_LONGEST = 20  # digits: more than 64 bits have


class Models:
    """What is served, by name, version and label. For the server's thread, once it serves."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, ServedModel]] = {}
        self._labels: dict[tuple[str, str], int] = {}

    def __iter__(self) -> Iterator[ServedModel]:
        return (model for versions in self._versions.values() for model in versions.values())

    def add(self, model: ServedModel) -> None:
        """Takes up a model.

        Raises:
            ValueError: there is one of this name and version.
        """
        versions = self._versions.setdefault(model.name, {})
        if model.version in versions:
            message = (
                f"there are two models {model.name!r} of version {model.version}; give one of them "
                "another name: NAME=PATH"
            )
            raise ValueError(message)
        versions[model.version] = model

    def versions(self, name: str) -> list[ServedModel]:
        """Returns the versions of a model, the newest first.

        Raises:
            Problem: there is no model of this name.
        """
        versions = self._versions.get(name)
        if not versions:
            message = f"Could not find any versions of model {name}"
            raise Problem(message, Code.NOT_FOUND)
        return [versions[number] for number in sorted(versions, reverse=True)]

    def find(self, name: str, version: str = "", label: str = "") -> ServedModel:
        """Returns the model that a request names.

        Args:
            name: The model's name.
            version: Its version in decimal digits; ``""`` or ``"0"``: the newest.
            label: Instead of a version, a name for one.

        Raises:
            Problem: there is none.
        """
        versions = self._versions.get(name, {})
        if label:
            number = self._labels.get((name, label))
            if number is None:
                message = f"Unrecognized servable version label: {label}"
                raise Problem(message, Code.INVALID_ARGUMENT)
        elif version.strip("0"):
            # What is no number, or more than Python reads of one, is a version that there is not.
            number = int(version) if version.isdecimal() and len(version) < _LONGEST else None
        else:
            number = max(versions, default=None)
        found = None if number is None else versions.get(number)
        if found is None:
            wanted = f"Specific({name}, {version})" if version.strip("0") else f"Latest({name})"
            message = f"Servable not found for request: {wanted}"
            raise Problem(message, Code.NOT_FOUND)
        return found
