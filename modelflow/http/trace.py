"""Where a request stands in a larger whole: ``traceparent`` and ``tracestate`` (W3C)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Trace", "read_trace"]

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", re.ASCII)
_NO_VERSION = "ff"
# What must be passed on, at least; what is longer is dropped as a whole.
_LONGEST_STATE = 512


@dataclass(frozen=True, slots=True)
class Trace:
    """What a caller said of the trace that its request belongs to, to be passed on as it is.

    Attributes:
        id: The trace's id: 32 digits of 16.
        parent: The whole of ``traceparent``.
        state: The whole of ``tracestate``; ``""``: none was sent, or none that may be passed on.
    """

    id: str
    parent: str
    state: str = ""


def read_trace(parents: Sequence[str], states: Sequence[str] = ()) -> Trace | None:
    """Returns what the headers say; None: there is no ``traceparent``, or none that is valid.

    A version that is not known yet is read as far as it is known.

    Args:
        parents: The values of all headers ``traceparent``.
        states: The values of all headers ``tracestate``.
    """
    if len(parents) != 1:
        return None
    parent = parents[0].strip(" \t")
    found = _FORM.fullmatch(parent)
    if found is None:
        return None
    version, trace, span, more = found.groups()
    is_known_form = version != _NO_VERSION and not (version == "00" and more)
    if not is_known_form or not trace.strip("0") or not span.strip("0"):
        return None
    return Trace(trace, parent, _state(states))


def _state(states: Sequence[str]) -> str:
    state = ",".join(one.strip(" \t") for one in states)
    is_fit = len(state) <= _LONGEST_STATE and state.isascii() and state.isprintable()
    return state if is_fit else ""
