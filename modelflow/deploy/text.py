"""The texts that are written as they stand in ``texts/``, but for their ``@names``."""

import string
from importlib.resources import files


class _Text(string.Template):
    """A text with ``@name`` where something is put in; ``@@`` is an ``@``."""

    delimiter = "@"


def fill(name: str, /, **values: object) -> str:
    """Returns a text of ``texts/``, with a value for each of its names.

    Raises:
        KeyError: it has a name without a value.
    """
    text = (files("modelflow.deploy") / "texts" / name).read_text(encoding="utf-8")
    return _Text(text).substitute(values)
