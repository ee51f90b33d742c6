"""What Ray is told to make of an actor, also where modelflow is of another version, or is not.

This class is sent as it stands here, not as the name of a module; it imports what it keeps once it
has seen that versions agree. So who calls it is told what differs, by one line, at the first call.
"""

import os
import pickle
import sys
import threading
from collections.abc import Sequence
from typing import Any


class ActorLoader:
    """Keeps what does the work; Ray calls its methods from several threads at once."""

    def __init__(self, versions: tuple[str, str], paths: Sequence[str], given: bytes) -> None:
        """Makes what it keeps, where it can be made.

        Args:
            versions: Of Python and of modelflow, as the caller has them.
            paths: Where the caller looks for modules; what is there on this machine is used.
            given: What is called to make it, and with what; pickled.
        """
        # When Ray has ended the actor the interpreter would wait for the threads of what is kept.
        threading._register_atexit(os._exit, 0)  # type: ignore[attr-defined]
        sys.path.extend(path for path in paths if path not in sys.path)
        self._kept: Any = None
        self._problem = self._difference(versions)
        if not self._problem:
            make, arguments = pickle.loads(given)
            self._kept = make(*arguments)

    @staticmethod
    def _difference(versions: tuple[str, str]) -> str:
        python = ".".join(map(str, sys.version_info[:2]))
        try:
            from modelflow import __version__ as ours
        except ImportError as error:
            ours = f"none ({error})"
        if (python, ours) == versions:
            return ""
        return (
            f"machine {os.uname().nodename} has Python {python} and modelflow {ours}; expected "
            f"Python {versions[0]} and modelflow {versions[1]}, as the caller has them"
        )

    def call(self, method: str, given: bytes) -> Any:
        """Calls what it keeps.

        Args:
            method: The method.
            given: What it is called with, pickled.

        Raises:
            RuntimeError: other versions are here than at the caller.
        """
        if self._problem:
            raise RuntimeError(self._problem)
        return getattr(self._kept, method)(*pickle.loads(given))
