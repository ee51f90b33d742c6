"""What a server serves, and who keeps it: this process, or another one."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from modelflow.ipc.loop_queue import LoopQueue

if TYPE_CHECKING:
    from modelflow.serve.fleet import ReplicaGroup
    from modelflow.serve.repository.models import Models


class Stock(Protocol):
    """What there is to serve. For the server's thread, but where it says otherwise."""

    @property
    def models(self) -> "Models":
        """What requests see."""

    @property
    def fleet(self) -> "ReplicaGroup":
        """What changes it."""

    @property
    def is_open(self) -> bool:
        """Clients may load and unload models."""

    def unready(self) -> str:
        """Returns why the server is not ready; ``""``: it is. From any thread."""

    def look(self) -> Sequence[str]:
        """Returns the names of what there is; before it begins.

        Raises:
            ConfigError: a path holds nothing to serve.
        """

    def begin(self, mailbox: LoopQueue, told: Callable[[], object]) -> None:
        """Begins; on the thread that made it.

        Args:
            mailbox: What reaches the server's thread.
            told: Called there when everything was tried.
        """

    def check(self) -> None:
        """Looks whether there is anything to serve, or may be; when all was tried.

        Raises:
            FlowFailed, GraphError, EngineError: nothing can be loaded.
        """

    def refresh(self) -> None:
        """Looks for what is new."""

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has ended other processes."""

    def end(self) -> None:
        """Loads nothing more, and tells whoever waits for that."""
