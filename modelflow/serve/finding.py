"""What there is to serve at this moment: a look at the disk."""

from collections.abc import Sequence
from dataclasses import dataclass

from modelflow.errors import ModelflowError
from modelflow.serve.catalogue import Catalogue
from modelflow.serve.source import Edition, Source

__all__ = ["Finding", "look"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A model as it is on the disk now.

    Attributes:
        source: Where it comes from.
        editions: Its versions.
        reason: Why there are none; ``""``: there are.
    """

    source: Source
    editions: Sequence[Edition] = ()
    reason: str = ""


def look(catalogue: Catalogue) -> dict[str, Finding]:
    """Returns what there is to serve, by name; this reads folders.

    Raises:
        ConfigError: the catalogue cannot be read.
    """
    return {name: _found(source) for name, source in catalogue.read().items()}


def _found(source: Source) -> Finding:
    try:
        return Finding(source, source.editions())
    except (ModelflowError, OSError) as error:
        return Finding(source, reason=str(error))
