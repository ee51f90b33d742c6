"""Makes paths from a template and a buffer's meta, always inside the template's folder."""

import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# A width such as {index:999999999d} could exhaust the memory.
_SPEC = re.compile(r"[0<>^+,\-]{0,3}\d{0,3}(\.\d{1,2})?[dfgeEsxX]?\Z")
_MAX_NAME = 200


class PathTemplate:
    """A path with fields in braces: ``out/{stem}_{index:06d}.jpg``."""

    def __init__(self, text: str) -> None:
        """Reads the template.

        Raises:
            ValueError: the text is empty, or a field is not a plain name with a plain format.
        """
        if not text:
            raise ValueError("option 'path': got an empty text; expected the path of a file")
        try:
            self._parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ValueError(
                f"option 'path': got {text!r}, whose braces do not fit ({error})"
            ) from error
        self.text = text
        for _, name, spec, conversion in self._parts:
            if name is not None and (
                not re.fullmatch(r"\w+", name) or conversion or not _SPEC.match(spec or "")
            ):
                raise ValueError(
                    f"option 'path': got the field {{{name}}} with the format {spec!r}; expected "
                    "a name as in {stem}, or with a format as in {index:06d}"
                )

    def fill(self, values: Mapping[str, Any]) -> Path:
        """Returns the path for these values; of a path in a value only the last part is used.

        Raises:
            ValueError: a field has no value, or its value does not fit its format.
        """
        filled = []
        for text, name, spec, _ in self._parts:
            filled.append(text)
            if name is not None:
                filled.append(_fill(name, spec or "", values))
        return Path("".join(filled))


def _fill(name: str, spec: str, values: Mapping[str, Any]) -> str:
    if name not in values:
        known = ", ".join(sorted(values)) or "none"
        raise ValueError(f"path: got no meta {name!r} to fill in {{{name}}}; there are: {known}")
    value = values[name]
    if not isinstance(value, str | int | float):
        raise ValueError(
            f"path: got a {type(value).__name__} for {{{name}}}; expected text or a number"
        )
    try:
        text = format(value, spec)
    except ValueError as error:
        raise ValueError(f"path: got {value!r} for {{{name}:{spec}}} ({error})") from error
    # The meta may come from a request. No value may name another folder.
    last = re.split(r"[/\\]", text)[-1].replace("\0", "")[:_MAX_NAME]
    return "_" if last in ("", ".", "..") else last
