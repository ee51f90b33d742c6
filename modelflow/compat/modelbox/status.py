"""`Status`: the result of ModelBox's calls, which raise no exceptions."""

from enum import IntEnum
from typing import Any, Self


class StatusCode(IntEnum):
    """The codes, in ModelBox's order, each with its text."""

    text: str

    def __new__(cls, code: int, text: str = "") -> Self:
        """Returns the member for a number and its text."""
        member = int.__new__(cls, code)
        member._value_, member.text = code, text
        return member

    STATUS_SUCCESS = 0, "Success"
    STATUS_FAULT = 1, "Fault"
    STATUS_NOTFOUND = 2, "Not found"
    STATUS_INVALID = 3, "Invalid argument"
    STATUS_AGAIN = 4, "Try again"
    STATUS_BADCONF = 5, "Bad config"
    STATUS_NOMEM = 6, "Out of memory"
    STATUS_RANGE = 7, "Out of range"
    STATUS_EXIST = 8, "Already exists"
    STATUS_INTERNAL = 9, "Internal error"
    STATUS_BUSY = 10, "Device or resource busy"
    STATUS_PERMIT = 11, "Operation not permitted"
    STATUS_NOTSUPPORT = 12, "Not supported"
    STATUS_NODATA = 13, "No data available"
    STATUS_NOSPACE = 14, "No space left"
    STATUS_NOBUFS = 15, "No buffer space available"
    STATUS_OVERFLOW = 16, "Value too large for defined data type"
    STATUS_INPROGRESS = 17, "Operation now in progress"
    STATUS_ALREADY = 18, "Operation already in progress"
    STATUS_TIMEDOUT = 19, "Operation timed out"
    STATUS_NOSTREAM = 20, "Out of streams resources"
    STATUS_RESET = 21, "Request reset"
    STATUS_CONTINUE = 22, "Continue operation"
    STATUS_EDQUOT = 23, "Quota exceeded"
    STATUS_STOP = 24, "Stop operation"
    STATUS_SHUTDOWN = 25, "Shutdown operation"
    STATUS_EOF = 26, "End of file"


_Code = StatusCode


class Status:
    """The result of a call: a code, a message, and optionally a wrapped status.

    ``Status()`` is a success, and ``Status(False)`` a fault. ``Status(code, message)`` has that
    code, and ``Status(status, message)`` wraps another status. Only a success is true. A status can
    be compared with statuses, codes and bools.
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
        return self._code.text

    def errormsg(self) -> str:
        """Returns the message."""
        return self._errmsg

    def set_errormsg(self, errmsg: str) -> None:
        """Replaces the message."""
        self._errmsg = errmsg

    def wrap_errormsgs(self) -> str:
        """Returns the code's text and the messages of all wrapped statuses, the outermost first."""
        messages, status = [], self._inner
        while status is not None:
            messages.append(status._errmsg)
            status = status._inner
        text = " -> ".join(filter(None, [self._errmsg, *messages]))
        return f"{self.str_code()}, {text}" if text else self.str_code()

    def unwrap(self) -> "Status":
        """Returns the wrapped status, or a success if no status is wrapped."""
        return Status() if self._inner is None else self._inner

    def assign(self, other: "Status") -> None:
        """Copies code and message of ``other``, for statuses that a call fills in."""
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
    """Returns a failure with the text of ``error`` and of the errors within ``error``."""
    inner: tuple[Any, ...] = getattr(error, "exceptions", ())
    # A KeyError's own text is its message in quotes.
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = "; ".join([message, *map(str, inner)])
    return Status(code, text)
