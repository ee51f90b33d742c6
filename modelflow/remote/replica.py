"""What a pool knows of a replica, whatever it is and wherever it runs."""

from abc import ABC, abstractmethod

from modelflow.errors import ModelflowError
from modelflow.remote.message import Answers, Rows
from modelflow.remote.report import Report

__all__ = [
    "NotSendableError",
    "PartEndedError",
    "Replica",
]


class NotSendableError(ModelflowError):
    """Something in a batch, or in its answer, cannot be sent to another process."""


class PartEndedError(ModelflowError):
    """A unit of a part has ended the flow (`EndFlow`)."""


class Replica(ABC):
    """Runs all parts of one placement; made by an `Engine`.

    Its life: `start` once, on a thread of the pool; then `call`, from as many threads at once as
    the placement's ``in_flight`` says; `kill`, from any thread; `close` once, at the end.
    """

    @abstractmethod
    def start(self, timeout: float) -> None:
        """Begins, and waits until every unit is open.

        Args:
            timeout: The longest wait in seconds.

        Raises:
            ModelflowError: it cannot run; the message says why.
            TimeoutError: it was not ready in time.
        """

    @abstractmethod
    def call(self, rows: Rows, timeout: float | None) -> Answers:
        """Has a batch worked on.

        Args:
            rows: The batch.
            timeout: Seconds without a row that is done after which the replica counts as lost;
                None: it does once it gives no sign of life.

        Raises:
            ReplicaLostError: there is no answer, and there will be none.
            NotSendableError: something in the batch, or in its answer, cannot be sent.
            PartEndedError: a unit there has ended the flow.
        """

    @abstractmethod
    def is_alive(self) -> bool:
        """Tells whether it has not ended, as far as is known here."""

    def lacking(self) -> str:
        """Says what it waits for while it starts, as in ``waits for GPU=1``; "": nothing else."""
        return ""

    def reason(self) -> str:
        """Says why it was lost, as far as is known; "": nothing is. It may wait a second."""
        return ""

    def report(self, timeout: float) -> Report | None:  # noqa: ARG002
        """Returns what its nodes have done, as far as it tells within a time; from any thread.

        Args:
            timeout: Seconds; after these what it has told before is returned.

        Returns:
            None: it has told nothing.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Ends it, where it has not ended, and gives back what it held; no call is under way.

        Its units are closed.
        """

    @abstractmethod
    def kill(self) -> None:
        """Ends it at once; calls that are under way raise `ReplicaLostError`, `start` raises."""
