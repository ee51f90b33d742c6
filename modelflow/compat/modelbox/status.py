"""`Status`: what ModelBox's calls return instead of raising."""

from enum import IntEnum
from typing import Any


class StatusCode(IntEnum):
    """The codes, in ModelBox's order."""

    STATUS_SUCCESS = 0
    STATUS_FAULT = 1
    STATUS_NOTFOUND = 2
    STATUS_INVALID = 3
    STATUS_AGAIN = 4
    STATUS_BADCONF = 5
    STATUS_NOMEM = 6
    STATUS_RANGE = 7
    STATUS_EXIST = 8
    STATUS_INTERNAL = 9
    STATUS_BUSY = 10
    STATUS_PERMIT = 11
    STATUS_NOTSUPPORT = 12
    STATUS_NODATA = 13
    STATUS_NOSPACE = 14
    STATUS_NOBUFS = 15
    STATUS_OVERFLOW = 16
    STATUS_INPROGRESS = 17
    STATUS_ALREADY = 18
    STATUS_TIMEDOUT = 19
    STATUS_NOSTREAM = 20
    STATUS_RESET = 21
    STATUS_CONTINUE = 22
    STATUS_EDQUOT = 23
    STATUS_STOP = 24
    STATUS_SHUTDOWN = 25
    STATUS_EOF = 26


_TEXTS = (
    "Success",
    "Fault",
    "Not found",
    "Invalid argument",
    "Try again",
    "Bad config",
    "Out of memory",
    "Out of range",
    "Already exists",
    "Internal error",
    "Device or resource busy",
    "Operation not permitted",
    "Not supported",
    "No data available",
    "No space left",
    "No buffer space available",
    "Value too large for defined data type",
    "Operation now in progress",
    "Operation already in progress",
    "Operation timed out",
    "Out of streams resources",
    "Request reset",
    "Continue operation",
    "Quota exceeded",
    "Stop operation",
    "Shutdown operation",
    "End of file",
)


_Code = StatusCode


class Status:
    """The result of a call: a code, a message, and perhaps the status that it wraps.

    ``Status()`` is a success, ``Status(False)`` a fault, ``Status(code, message)`` what it says,
    and ``Status(status, message)`` wraps another. True only for a success; compares with statuses,
    codes and bools.
    """

    StatusCode = StatusCode

    def __init__(
        self, code: "_Code | Status | bool | int" = StatusCode.STATUS_SUCCESS, errmsg: str = ""
    ) -> None:
        self._code: _Code = StatusCode.STATUS_SUCCESS
        self._inner: Status | None = None
        self._errmsg = errmsg
        if isinstance(code, Status):
            self._code = code._code
            if errmsg:
                self._inner = code
            else:
                self._errmsg, self._inner = code._errmsg, code._inner
        elif isinstance(code, bool):
            self._code = StatusCode.STATUS_SUCCESS if code else StatusCode.STATUS_FAULT
        else:
            self._code = StatusCode(code)

    def code(self) -> "_Code":
        """Returns the code."""
        return self._code

    def str_code(self) -> str:
        """Returns the code's text, ``"Not found"``."""
        return _TEXTS[self._code]

    def errormsg(self) -> str:
        """Returns the message."""
        return self._errmsg

    def set_errormsg(self, errmsg: str) -> None:
        """Replaces the message."""
        self._errmsg = errmsg

    def wrap_errormsgs(self) -> str:
        """Returns the code's text and the messages of all wrapped statuses, the outer one first."""
        messages, status = [], self
        while True:
            if status._errmsg:
                messages.append(status._errmsg)
            if status._inner is None:
                break
            status = status._inner
        return f"{self.str_code()}, {' -> '.join(messages)}" if messages else self.str_code()

    def unwrap(self) -> "Status":
        """Returns the status that this one wraps; a success where there is none."""
        return Status() if self._inner is None else self._inner

    def assign(self, other: "Status") -> None:
        """Becomes what ``other`` is: for statuses that a call fills in."""
        self._code, self._errmsg, self._inner = other._code, other._errmsg, other._inner

    def __bool__(self) -> bool:
        return self._code is StatusCode.STATUS_SUCCESS

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Status):
            return self._code == other._code
        if isinstance(other, bool):
            return bool(self) == other
        return int(self._code) == other if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._code)

    def __str__(self) -> str:
        if not self._errmsg:
            return self.str_code()
        return f"code: {self.str_code()}, errmsg: {self._errmsg}"

    def __repr__(self) -> str:
        return f"Status({self._code.name}, {self._errmsg!r})"


def status_of(error: BaseException, code: _Code = StatusCode.STATUS_FAULT) -> Status:
    """Returns a failure with the text of ``error``, and those of the errors within it."""
    inner: tuple[Any, ...] = getattr(error, "exceptions", ())
    # A KeyError's own text is its message in quotes.
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = "; ".join([message, *map(str, inner)])
    return Status(code, text)
