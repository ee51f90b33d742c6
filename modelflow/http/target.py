"""What a request asks for: path and query, in whatever form it is written."""

import re

__all__ = ["split_target"]

# Without a user's name before the host: RFC 9110, 4.2.4.
_ABSOLUTE = re.compile(r"https?://(?P<host>[^/?#@\s]+)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?", re.I)


def split_target(target: str) -> tuple[str, str | None]:
    """Returns path and query of a request's target, and the host that it names; None: it does not.

    ``http://h:80/a?b`` (RFC 9112, 3.2.2), as a client of a proxy sends it, is ``/a?b`` of ``h:80``;
    any other form is returned as it is.

    Args:
        target: As sent.
    """
    if target.startswith("/"):
        return target, None
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        return target, None
    return (found["path"] or "/") + (found["query"] or ""), found["host"]
