"""The class of every actor, which also works where modelflow is missing or has another version.

Ray sends this class by value, and not as the name of a module. It imports the rest only if the
versions agree. With other versions, the first call raises an error of one line with the difference.
"""

import os
import pickle
import sys
import threading
from collections.abc import Sequence
from typing import Any


class ActorLoader:
    """The holder of the real actor; Ray calls its methods from several threads at once."""

    def __init__(self, versions: tuple[str, str], paths: Sequence[str], given: bytes) -> None:
        """Makes the real actor, if the versions agree.

        Args:
            versions: The versions of Python and modelflow at the caller.
            paths: The module search path of the caller. Missing folders do no harm.
            given: A callable and its arguments to make the actor, pickled.
        """
        # After Ray has ended the actor, the interpreter would wait for the actor's threads.
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
        """Calls a method of the real actor.

        Args:
            method: The name of the method.
            given: The arguments, pickled.

        Raises:
            RuntimeError: The versions differ from those of the caller.
        """
        if self._problem:
            raise RuntimeError(self._problem)
        return getattr(self._kept, method)(*pickle.loads(given))
