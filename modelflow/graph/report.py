"""What is wrong with a graph, all of it, and what in it has no effect."""

from collections.abc import Iterable

from modelflow.errors import (
    DeviceUnavailableError,
    Finding,
    GraphError,
    Location,
    ModelflowError,
    text_of,
)

__all__ = ["Report", "error_of"]


class Report:
    """Gathers findings while a graph is built."""

    findings: list[Finding]
    """What is wrong."""
    notes: list[str]
    """What has no effect."""

    def __init__(self, notes: Iterable[str]) -> None:
        """Begins with notes, and nothing wrong."""
        self.findings = []
        self.notes = list(notes)

    def wrong(
        self,
        at: Location,
        message: str,
        node: str | None = None,
        error: type[ModelflowError] = GraphError,
        port: str | None = None,
    ) -> None:
        """Notes what is wrong.

        Args:
            at: Where it is written.
            message: What was found, and what was expected.
            node: Whose it is.
            error: What it is raised as, where all findings are of one sort.
            port: The port of the node that it is about.
        """
        self.findings.append(Finding(at, message, node, error, port))


def error_of(findings: Iterable[Finding]) -> ModelflowError:
    """Returns the error that holds all findings: of the sort that all of them share, if they do."""
    findings = sorted(findings, key=lambda finding: finding.location.line or 0)
    kinds = {finding.error for finding in findings}
    only = kinds.pop() if len(kinds) == 1 else None
    if only is not None and issubclass(only, GraphError):
        return only(findings)
    if only is DeviceUnavailableError:
        error = DeviceUnavailableError(text_of(findings))
        error.findings = tuple(findings)
        return error
    return GraphError(findings)
