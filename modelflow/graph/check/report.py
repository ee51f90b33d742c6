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

MOST_FINDINGS = 100
"""How many findings an error lists: nobody reads more of them, and a text may have any number."""
# Behind so many findings no near name is looked for any more: that takes time.
_MANY = 20


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

    @property
    def is_full(self) -> bool:
        """Tells whether an error would list no more: nothing else needs to be looked at."""
        return len(self.findings) >= MOST_FINDINGS

    @property
    def has_many(self) -> bool:
        """Tells whether there are too many findings to look for a near name for another one."""
        return len(self.findings) >= _MANY

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


def error_of(findings: Iterable[Finding], unseen: str = "") -> ModelflowError:
    """Returns the error that holds the findings: of the sort that all of them share, if they do.

    Args:
        findings: Everything that is wrong; of more than `MOST_FINDINGS` the first are listed, and
            behind them how many there are.
        unseen: What was not looked at, since there were so many already: "4 nodes"; "": nothing.
    """
    findings = sorted(findings, key=lambda finding: finding.location.line or 0)
    kinds = {finding.error for finding in findings}
    only = kinds.pop() if len(kinds) == 1 else None
    more = len(findings) - MOST_FINDINGS
    if more > 0 or unseen:
        there = [f"{more} more were found"] if more > 0 else []
        there += [f"{unseen} were not looked at"] if unseen else []
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
