"""Settings as they are told: secrets masked, on one line, and not longer than one reads."""

import re

__all__ = ["is_secret", "told", "told_setting"]

# A value of such a name is not told.
_SECRET = re.compile(
    r"passw(or)?d|passphrase|(?<![a-z])pass\Z|pwd|secret|token|credential|authorization|key\Z",
    re.IGNORECASE,
)
# The password in a URL: everything up to the last @ before the path.
_OF_URL = re.compile(r"(://[^/\s:@]*):[^/\s]*@")
_MASK = "***"
_LONGEST = 200


def is_secret(name: str) -> bool:
    """Tells whether what has such a name is not for all to see."""
    return _SECRET.search(name) is not None


def told(name: str, value: str) -> str:
    """Returns a value without what is not for all to see; nothing else of it changes."""
    return _MASK if is_secret(name) else _OF_URL.sub(rf"\1:{_MASK}@", value)


def told_setting(name: str, value: str) -> str:
    """Returns ``NAME=VALUE`` on one line, a long value cut."""
    text = told(name, value)
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} letters)"
    return "".join(
        letter if letter.isprintable() else ascii(letter)[1:-1] for letter in f"{name}={cut}"
    )
