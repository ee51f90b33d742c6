"""Unix sockets that servers listen at: their addresses ``unix:PATH``, and their files."""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

PREFIX = "unix:"
"""The beginning of an address that is the path of a Unix socket."""

NO_UNIX = (
    "this command cannot reach a Unix socket; expected a port, HOST:PORT or a URL. To give the "
    "socket a port: socat TCP-LISTEN:8501,bind=127.0.0.1,fork UNIX-CONNECT:PATH"
)
"""The error text of commands that connect by host and port."""

MOST_BYTES = 107
"""The most bytes of a path, because the kernel's structure has room for 108 with a zero byte."""


def is_unix(host: str) -> bool:
    """Returns whether an address is the path of a Unix socket."""
    return host.startswith(PREFIX)


def address_parts(sock: socket.socket) -> tuple[str, int]:
    """Returns host and port of a socket. A Unix socket has its address ``unix:PATH`` and port 0."""
    name = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return f"{PREFIX}{name}", 0
    return name[0], name[1]


def check_path(path: str) -> None:
    """Checks the length of a path.

    Raises:
        OSError: The path is empty or too long.
    """
    size = len(os.fsencode(path))
    if not 0 < size <= MOST_BYTES:
        raise OSError(
            errno.ENAMETOOLONG,
            f"{PREFIX}{path}: the path has {size} bytes; expected 1 to {MOST_BYTES}, for example a "
            "path relative to the current folder",
        )


def private_host(host: str) -> str:
    """Returns the address of a file in the same folder, for a socket that is moved afterwards.

    Raises:
        OSError: The path of the file would be too long.
    """
    folder = os.path.dirname(host.removeprefix(PREFIX))
    path = os.path.join(folder, f".{os.getpid()}.sock")
    check_path(path)
    return f"{PREFIX}{path}"


def bind_unix_socket(host: str) -> socket.socket:
    """Returns a socket that listens at an address ``unix:PATH``.

    A socket file that no server listens at is replaced. The socket listens at once, because another
    server would otherwise take the file for such a remainder. The permissions are by the umask.

    Raises:
        OSError: A server listens there, another kind of file is there, or the path is unusable.
    """
    path = host.removeprefix(PREFIX)
    check_path(path)
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(path)
        bound.listen(socket.SOMAXCONN)
    except OSError as error:
        bound.close()
        reason = error.strerror or error
        raise OSError(error.errno, f"{host}: cannot listen there: {reason}") from error
    return bound


def _remove_stale(path: str) -> None:
    """Removes a socket file that no server listens at."""
    where = f"{PREFIX}{path}: cannot listen there"
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # no file, or no folder: `bind` says so
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(
            errno.EEXIST, f"{where}: a file of another kind has this path; it is not removed"
        )
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.setblocking(False)  # a full backlog also means that a server listens
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass
        except OSError as error:
            raise OSError(error.errno, f"{where}: {error.strerror}") from error
    raise OSError(errno.EADDRINUSE, f"{where}: the address is in use by another server")


class SocketFile:
    """The file of a socket, which its server removes at the end."""

    def __init__(self, host: str) -> None:
        """Records the file of an address ``unix:PATH`` that the caller has bound."""
        self._path = Path(host.removeprefix(PREFIX)).absolute()
        self._identity = self._identify()

    def _identify(self) -> tuple[int, int] | None:
        try:
            found = os.lstat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def remove(self) -> None:
        """Removes the file, unless another server has replaced the file. May be called again."""
        if self._identity is not None and self._identify() == self._identity:
            with contextlib.suppress(OSError):  # the folder may be gone or read-only by now
                os.unlink(self._path)
