"""The mistakes of a graph, and the parts of a graph without effect."""

from collections.abc import Iterable

from modelflow.errors import (
    DeviceUnavailableError,
    Finding,
    GraphError,
    Location,
    ModelflowError,
    text_of,
)

MOST_FINDINGS = 100
"""The maximum number of findings that an error lists; a text may have any number of mistakes."""
# From this number of findings on, no similar names are searched, because the search takes time.
_MANY = 20


class Report:
    """A list of findings and notes, which grows while a graph is built."""

    findings: list[Finding]
    """The mistakes."""
    notes: list[str]
    """The parts of the graph without effect."""

    def __init__(self, notes: Iterable[str]) -> None:
        """Takes the first notes."""
        self.findings = []
        self.notes = list(notes)

    @property
    def is_full(self) -> bool:
        """Tells whether an error has no room for more findings; checks can then stop."""
        return len(self.findings) >= MOST_FINDINGS

    @property
    def has_many(self) -> bool:
        """Tells whether too many findings exist to search similar names for more findings."""
        return len(self.findings) >= _MANY

    def wrong(
        self,
        at: Location,
        message: str,
        node: str | None = None,
        error: type[ModelflowError] = GraphError,
        port: str | None = None,
    ) -> None:
        """Adds a mistake.

        Args:
            at: The location in the graph file.
            message: The found text, and the expected text.
            node: The node with the mistake.
            error: The class of the error, if all findings have the same class.
            port: The port of the node with the mistake.
        """
        self.findings.append(Finding(at, message, node, error, port))


def error_of(findings: Iterable[Finding], unseen: str = "") -> ModelflowError:
    """Returns the error with the findings; its class is the common class of the findings, if any.

    Args:
        findings: All mistakes. Of more than `MOST_FINDINGS` only the first are listed, with the
            number of the others.
        unseen: The parts that were not checked because of too many findings ("4 nodes"), or "".
    """
    findings = sorted(findings, key=lambda finding: finding.location.line or 0)
    kinds = {finding.error for finding in findings}
    only = kinds.pop() if len(kinds) == 1 else None
    more = len(findings) - MOST_FINDINGS
    if more > 0 or unseen:
        there = [f"{more} more were found"] if more > 0 else []
        there += [f"{unseen} were not checked"] if unseen else []
        text = (
            f"these are the first {MOST_FINDINGS} findings, {' and '.join(there)}: correct these, "
            "then check again"
        )
        where = Location(findings[0].location.file)
        findings[MOST_FINDINGS:] = [Finding(where, text, error=only)]
    if only is not None and issubclass(only, GraphError):
        return only(findings)
    if only is DeviceUnavailableError:
        error = DeviceUnavailableError(text_of(findings))
        error.findings = tuple(findings)
        return error
    return GraphError(findings)
