"""A process of Python that belongs to this one: how it is started, prepared, reached and ended."""

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

# How long a process may take to end by itself once it is to.
END_TIMEOUT = 5.0


class Preparation:
    """Whether this process imports the main module of another one, which must not start it all."""

    is_so = False


class ChildProcess:
    """A process of Python, and the channels to it. It ends with the thread that has started it.

    Attributes:
        channels: What reaches it.
        pid: The number of the process.
    """

    def __init__(self, entry: str, search_path: Sequence[str], channels: int = 1) -> None:
        """Starts the process.

        Args:
            entry: ``package.module:function``, which is given the arguments that `channels_of`
                reads.
            search_path: Where it looks for modules, as ``sys.path``; in the current folder only
                where that says so: a file there may bear the name of a module of Python's.
            channels: How many channels there are to it.

        Raises:
            OSError: it cannot be started, or too many files are open; nothing is left of it.
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
        """Tells whether the process has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process at once, where it has not ended."""
        if self.is_alive:
            self._process.kill()

    def wait(self) -> str:
        """Waits for the end, and kills what does not end in time; returns how it has ended."""
        try:
            self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        status = self._process.returncode
        return f"status {status}" if status >= 0 else signal.Signals(-status).name

    def end(self) -> str:
        """Closes the channels, which ends the process; returns how it has ended."""
        self.close()
        return self.wait()

    def close(self) -> None:
        """Gives the channels back."""
        for channel in self.channels:
            channel.close()


def channels_of(arguments: list[str]) -> list[MemoryChannel]:
    """Returns the channels of a `ChildProcess`, in the process itself, and ties it to its parent.

    Args:
        arguments: The descriptors of each channel, and the number of the parent.
    """
    *descriptors, parent = map(int, arguments)
    end_with(parent)
    size = len(ChannelDescriptors._fields)
    sides = (descriptors[at : at + size] for at in range(0, len(descriptors), size))
    return [MemoryChannel(ChannelDescriptors(*side)) for side in sides]


def read_job(channel: Channel) -> Any:
    """Returns what the process is for, once modules are found as in its parent."""
    # First where modules are found, and the main module; then what is made of them.
    preparation, pickled = channel.receive()
    prepare(preparation)
    return pickle.loads(pickled)


def preparation_of(
    name: str, search_path: Sequence[str], pickled: bytes, who: str
) -> dict[str, Any]:
    """Returns what a process must do (`prepare`) before it can read ``pickled``.

    The main module is imported there only where something in it is needed.

    Args:
        name: The name of the process.
        search_path: Where it looks for modules.
        pickled: What it is for.
        who: Who needs the process, for messages.

    Raises:
        PlanError: this process imports the main module of another one, which must not start it all.
    """
    if Preparation.is_so:
        raise PlanError(
            f"{who}: the main module starts the flow where it is imported, and this process must "
            "import it; put what starts the flow under: if __name__ == '__main__':"
        )
    preparation = spawn.get_preparation_data(name)
    preparation["sys_path"] = [folder or preparation["orig_dir"] for folder in search_path]
    preparation.pop("authkey", None)  # of multiprocessing's own connections
    if b"__main__" not in pickled:
        for key in ("init_main_from_name", "init_main_from_path"):
            preparation.pop(key, None)
    return preparation


def is_main_importable(preparation: Mapping[str, Any]) -> bool:
    """Tells whether a process can import the main module: that of a notebook has no file."""
    path = preparation.get("init_main_from_path")
    return "init_main_from_name" in preparation or (path is not None and Path(path).is_file())


def prepare(preparation: Mapping[str, Any]) -> None:
    """Sets up where modules are found, and the main module; in the process itself."""
    Preparation.is_so = True
    spawn.prepare(dict(preparation))
    Preparation.is_so = False
