"""Pages in a browser that show given snapshots."""

import contextlib
from dataclasses import replace

from modelflow.studio.dashboard import Dashboard
from tests.browser import browsing

__all__ = ["Source", "changed", "shown"]


class Source:
    """Snapshots for a page, in order; the last snapshot stays."""

    def __init__(self, *moments):
        self.moments = list(moments)

    def look(self):
        return self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]

    def show(self, *moments):
        """Adds snapshots to show next."""
        self.moments += moments


@contextlib.contextmanager
def shown(*moments, every=0.02, **more):
    """Yields the page in a browser, and the source of its snapshots."""
    source = Source(*moments)
    with Dashboard(source.look, every=every) as served, browsing(**more) as browser:
        browser.open(served.url)
        yield browser.page, source
        assert browser.complaints == []


def changed(snapshot, node, **values):
    """Returns the snapshot with other values of a node's statistics."""
    nodes = {**snapshot.stats.nodes, node: replace(snapshot.stats[node], **values)}
    return replace(snapshot, stats=replace(snapshot.stats, nodes=nodes))
