"""What is not there, in the words that clients of each protocol look for."""

from collections.abc import Iterable

from modelflow.errors import did_you_mean
from modelflow.wire.problem import Code, Problem, shown

__all__ = ["no_servable", "no_signature", "no_versions", "unknown_model"]


def no_servable(model: str, version: int | None) -> Problem:
    """Returns what TensorFlow Serving says of a model or version to infer with."""
    which = f"Latest({model})" if version is None else f"Specific({model}, {version})"
    return Problem(f"Servable not found for request: {which}", Code.NOT_FOUND)


def no_versions(model: str) -> Problem:
    """Returns what TensorFlow Serving says of a model whose status is asked for."""
    return Problem(f"Could not find any versions of model {model}", Code.NOT_FOUND)


def no_signature(name: str, known: Iterable[str]) -> Problem:
    """Returns what TensorFlow Serving says of a signature that a model does not have."""
    near = did_you_mean(name, known) if len(name) < _LONG else ""
    message = f'Serving signature name: "{name}" not found in signature def{near}'
    return Problem(message)


def unknown_model(model: str, version: str = "") -> Problem:
    """Returns what Triton says of a model, or of one of its versions; empty: of none."""
    said = version if version.isdecimal() and len(version) < _LONG else shown(version)
    which = f"{shown(model)} version {said}" if version else shown(model)
    return Problem(f"Request for unknown model: {which} is not found", Code.NOT_FOUND)


_LONG = 200  # characters: no name that somebody meant
