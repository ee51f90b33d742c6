"""What is wrong with a request: one exception for all protocols, in their clients' words."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NoReturn

from modelflow.errors import ModelflowError, describe_error, did_you_mean


class Code(StrEnum):
    """What kind of problem it is: the words that gRPC and TensorFlow Serving have for it.

    A server maps each to a status of its protocol; what the words mean is the same everywhere.
    """

    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    DATA_LOSS = "DATA_LOSS"
    UNAUTHENTICATED = "UNAUTHENTICATED"


class Problem(ModelflowError):  # noqa: N818 - HTTP's word (RFC 9457)
    """A request that cannot be understood, or an answer that its protocol cannot carry.

    The message says where, what was found, and what was expected, for the client to read.

    Attributes:
        code: What kind of problem it is.
    """

    def __init__(self, message: str, code: Code = Code.INVALID_ARGUMENT) -> None:
        super().__init__(sendable(message))
        self.code = code


def refuse(
    message: str, code: Code = Code.INVALID_ARGUMENT, *, cause: Exception | None = None
) -> NoReturn:
    """Raises a `Problem`.

    Args:
        message: See the class.
        code: See the class.
        cause: What was raised before, where that says why.

    Raises:
        Problem: always.
    """
    raise Problem(message, code) from cause


def sendable(text: str) -> str:
    r"""Returns a text as every protocol can send it: in UTF-8.

    What is no character there (a byte of a file's name, half of a pair) is written out: ``\udcff``.
    """
    return text.encode(errors="backslashreplace").decode()


def shorten(value: object) -> str:
    """Returns what a client sent as it stands in messages: cut, so that an answer stays short."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_LONGEST = 80  # characters: a line


def reason_of(error: Exception) -> str:
    """Returns what an exception says, with those that it is a group of."""
    if isinstance(error, ExceptionGroup):
        return "; ".join(map(reason_of, error.exceptions))
    return sendable(str(error) or describe_error(error))


def no_signature(name: str, known: Iterable[str]) -> Problem:
    """Returns what TensorFlow Serving says of a signature that a model does not have."""
    near = did_you_mean(name, known) if len(name) < _LONG else ""
    message = f'Serving signature name: "{name}" not found in signature def{near}'
    return Problem(message)


def unknown_model(model: str, version: str = "") -> Problem:
    """Returns what Triton says of a model, or of one of its versions; empty: of none."""
    said = version if version.isdecimal() and len(version) < _LONG else shorten(version)
    which = f"{shorten(model)} version {said}" if version else shorten(model)
    return Problem(f"Request for unknown model: {which} is not found", Code.NOT_FOUND)


_LONG = 200  # characters: no name that somebody meant
