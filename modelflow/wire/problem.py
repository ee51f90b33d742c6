"""Errors of a request: one exception for all protocols, with messages in the client's terms."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NoReturn

from modelflow.errors import ModelflowError, describe_error, did_you_mean


class Code(StrEnum):
    """The kind of a problem, in the words of gRPC and TensorFlow Serving.

    A server maps each kind to a status of its protocol. The words mean the same in all protocols.
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

    The message tells the client the place, the found value, and the expected value.

    Attributes:
        code: The kind of the problem.
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
        cause: The earlier exception, if it explains the problem.

    Raises:
        Problem: Always.
    """
    raise Problem(message, code) from cause


def sendable(text: str) -> str:
    r"""Returns a text that every protocol can send in UTF-8.

    A code point that UTF-8 cannot encode (a byte of a file name, a lone surrogate) is escaped:
    ``\udcff``.
    """
    return text.encode(errors="backslashreplace").decode()


def shorten(value: object) -> str:
    """Returns a client's value for a message, cut to 80 characters to keep the answer short."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_LONGEST = 80  # characters: a line


def reason_of(error: Exception) -> str:
    """Returns the message of an exception, and for a group the messages of its exceptions."""
    if isinstance(error, ExceptionGroup):
        return "; ".join(map(reason_of, error.exceptions))
    return sendable(str(error) or describe_error(error))


def no_signature(name: str, known: Iterable[str]) -> Problem:
    """Returns TensorFlow Serving's error about a signature that a model does not have."""
    near = did_you_mean(name, known) if len(name) < _LONG else ""
    message = f'Serving signature name: "{name}" not found in signature def{near}'
    return Problem(message)


def unknown_model(model: str, version: str = "") -> Problem:
    """Returns Triton's error about a model, or about a version of that model."""
    said = version if version.isdecimal() and len(version) < _LONG else shorten(version)
    which = f"{shorten(model)} version {said}" if version else shorten(model)
    message = f"Request for unknown model: {which} is not found"
    if version and not version.isdecimal():
        message += (
            f"; failed to get model version from specified version string {said}, "
            "which is neither a number nor a label"
        )
    return Problem(message, Code.NOT_FOUND)


_LONG = 200  # characters: a longer name is no typing error
