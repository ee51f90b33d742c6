"""The runs of an editor, one at a time."""

import sys
import threading
from collections.abc import Mapping
from typing import Any

from modelflow.errors import ConfigError, GraphError, ModelflowError
from modelflow.http.mailbox import Mailbox
from modelflow.registry.forget import forget_modules
from modelflow.studio.edit.draft import Draft
from modelflow.studio.edit.passed import Picture
from modelflow.studio.edit.samples import rows_of
from modelflow.studio.edit.trial import Trial
from modelflow.studio.viewer import Viewer

__all__ = ["Trials"]

# A flow that is stopped waits 10 s for its units itself.
_LAST_SECONDS = 15.0


class Trials:
    """Begins runs, and knows the last one; `begin` and `forget` one at a time, the rest any time.

    A `begin` that hangs in a unit's import, and was given up, is none of them: it begins nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = 0
        self._before = frozenset(sys.modules)
        self._last: Trial | None = None
        self._count = 0

    def forget(self) -> None:
        """Has the user's units imported anew, as their files are by now, unless they are in use."""
        if self._last is None or self._last.is_over:
            forget_modules(self._before)

    def begin(self, draft: Draft, samples: Mapping[str, Any], *, is_repeated: bool) -> None:
        """Begins a run of a draft.

        Args:
            draft: Its units are not imported yet.
            samples: What goes into its inputs; see `rows_of`.
            is_repeated: Again and again, until it is stopped.

        Raises:
            ModelflowError: a run is under way; the draft is wrong, or cannot run on this machine; a
                sample is none.
        """
        given_up = self._given_up
        if self._last is not None and not self._last.is_over:
            message = "a run is under way; stop it first"
            raise ModelflowError(message)
        self.forget()
        graph, findings = draft.checked
        if graph is None:
            raise GraphError(findings)
        rows = rows_of(samples, graph.inputs) if graph.inputs else []
        if is_repeated and not rows:
            message = "the graph has no input into which anything could be sent again"
            raise ConfigError(message)
        trial = Trial(graph, rows, is_repeated=is_repeated)
        if self._last is not None:
            self._last.join()
        with self._lock:
            if self._given_up != given_up:
                message = "the run was given up before it began"
                raise ModelflowError(message)
            trial.start()
            self._last = trial
            self._count += 1

    def give_up(self) -> None:
        """Has a `begin` that is under way begin nothing: whoever asked for it waits no longer."""
        with self._lock:
            self._given_up += 1

    def stop(self) -> None:
        """Has the run end at once; harmless where none is under way."""
        if self._last is not None:
            self._last.stop()

    def close(self) -> None:
        """Has the run end, and waits a little until nothing is left of it; nothing is begun then.

        A run that is left is one in a unit that does not return: nobody can end that.
        """
        self.stop()
        if self._last is not None:
            self._last.join(_LAST_SECONDS)

    def document(self) -> dict[str, Any]:
        """Returns how the last run stands; ``state``: ``none`` where there was none."""
        if self._last is None:
            return {"state": "none", "problem": "", "seconds": 0.0, "repeated": False}
        return self._last.document()

    def passed(self, node: str, output: str) -> dict[str, Any]:
        """Returns what an output gave in the last run; see `Passed.document`."""
        if self._last is None:
            return {"run": 0, "count": 0, "values": []}
        return {"run": self._count, **self._last.passed.document(node, output)}

    def picture(self, number: int) -> Picture | None:
        """Returns an image that `passed` has named; None: it is too old."""
        return None if self._last is None else self._last.passed.picture(number)

    def viewer(self, mailbox: Mailbox) -> Viewer | None:
        """Returns who sends the figures of the run to a page; None: nothing has been run."""
        return None if self._last is None else Viewer(self._last.board, mailbox)
