"""Child processes of Python: start, preparation, channels and end."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from modelflow.errors import PlanError
from modelflow.ipc.channel import Channel
from modelflow.ipc.memory_channel import MemoryChannel, open_channel
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.signals import end_with

# Seconds for a process to end by itself after its channels are closed.
END_TIMEOUT = 5.0


class Preparation:
    """A flag that is set while this process imports the main module of another process.

    The import must not start a flow.
    """

    is_so = False


class ChildProcess:
    """A child process of Python with channels. It ends with the thread that has started it.

    Attributes:
        channels: The channels to the process.
        pid: The process id.
    """

    def __init__(self, entry: str, search_path: Sequence[str], channels: int = 1) -> None:
        """Starts the process.

        Args:
            entry: ``package.module:function``. The function gets the arguments for `channels_of`.
            search_path: The module search path of the process, as ``sys.path``. The current folder
                is searched only if listed, because a file there may hide a standard module.
            channels: The number of channels.

        Raises:
            OSError: the process cannot be started, or too many files are open. Everything is closed
                again.
        """
        module, _, function = entry.partition(":")
        command = f"import sys; from {module} import {function}; {function}(sys.argv[1:])"
        flags = () if "" in search_path else ("-P",)
        self.channels: list[MemoryChannel] = []
        theirs: list[int] = []
        try:
            for _ in range(channels):
                channel, ends = open_channel()
                self.channels.append(channel)
                theirs += ends
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", command, *map(str, theirs), str(os.getpid())],
                pass_fds=theirs,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search_path))},
            )
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        """Tells whether the process still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills a running process."""
        if self.is_alive:
            self._process.kill()

    def wait(self) -> str:
        """Waits for the end of the process, and kills a late process.

        Returns the exit status or signal.
        """
        try:
            self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        status = self._process.returncode
        return f"status {status}" if status >= 0 else signal.Signals(-status).name

    def end(self) -> str:
        """Closes the channels, which ends the process. Returns the exit status or signal."""
        self.close()
        return self.wait()

    def close(self) -> None:
        """Closes the channels."""
        for channel in self.channels:
            channel.close()


def channels_of(arguments: list[str]) -> list[MemoryChannel]:
    """Returns the channels inside a `ChildProcess`, and ties the process to its parent.

    Args:
        arguments: The descriptors of each channel, and the number of the parent.
    """
    *descriptors, parent = map(int, arguments)
    end_with(parent)
    size = len(ChannelDescriptors._fields)
    sides = (descriptors[at : at + size] for at in range(0, len(descriptors), size))
    return [MemoryChannel(ChannelDescriptors(*side)) for side in sides]


def read_job(channel: Channel) -> Any:
    """Receives and returns the job of the process, after the module search path is set up."""
    # The search path and the main module are set up first, because unpickling imports modules.
    preparation, pickled = channel.receive()
    prepare(preparation)
    return pickle.loads(pickled)


def preparation_of(
    name: str, search_path: Sequence[str], pickled: bytes, who: str
) -> dict[str, Any]:
    """Returns the data for `prepare`, which a process needs before unpickling ``pickled``.

    The process imports the main module only if ``pickled`` needs it.

    Args:
        name: The name of the process.
        search_path: The module search path of the process.
        pickled: The job of the process.
        who: The name of the unit or engine that needs the process, for messages.

    Raises:
        PlanError: this process is importing the main module of its parent, which starts the flow.
    """
    if Preparation.is_so:
        raise PlanError(
            f"{who}: the main module starts the flow where it is imported, and this process must "
            "import it; put what starts the flow under: if __name__ == '__main__':"
        )
    preparation = spawn.get_preparation_data(name)
    preparation["sys_path"] = [folder or preparation["orig_dir"] for folder in search_path]
    preparation.pop("authkey", None)  # only for connections of multiprocessing
    if b"__main__" not in pickled:
        for key in ("init_main_from_name", "init_main_from_path"):
            preparation.pop(key, None)
    return preparation


def is_main_importable(preparation: Mapping[str, Any]) -> bool:
    """Tells whether a process can import the main module. The module of a notebook has no file."""
    path = preparation.get("init_main_from_path")
    return "init_main_from_name" in preparation or (path is not None and Path(path).is_file())


def prepare(preparation: Mapping[str, Any]) -> None:
    """Sets up the module search path and the main module, inside the process."""
    Preparation.is_so = True
    spawn.prepare(dict(preparation))
    Preparation.is_so = False
