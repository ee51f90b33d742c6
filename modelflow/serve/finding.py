"""What there is to serve at this moment: a look at the disk."""

from collections.abc import Sequence
from dataclasses import dataclass

from modelflow.errors import ConfigError, FlowFailed, ModelflowError
from modelflow.serve.catalogue import Catalogue
from modelflow.serve.source import Edition, Source

__all__ = ["Finding", "failure_of", "look"]


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


def failure_of(failures: Sequence[Exception]) -> Exception:
    """Returns what is raised where there is nothing to serve.

    Args:
        failures: What did not load; none: there was nothing.
    """
    if not failures:
        return ConfigError("the folder holds no models; put some there, or look again with --poll")
    return failures[0] if len(failures) == 1 else FlowFailed("no model could be loaded", failures)


def _found(source: Source) -> Finding:
    try:
        return Finding(source, source.editions())
    except (ModelflowError, OSError) as error:
        return Finding(source, reason=str(error))
