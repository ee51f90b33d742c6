"""The program ``modelflow``, and ``python -m modelflow``: the command line."""

import gc
import os
import signal
import sys

# An import makes many objects, and all of them stay. By default the garbage collector looks at them
# after every 700 objects, which takes a twentieth of the time of `modelflow check`.
_OBJECTS = 20_000


def main() -> None:
    """Loads and runs the command line; see `modelflow.cli.main.main`."""
    _open_streams()
    gc.set_threshold(_OBJECTS)
    is_raised = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # Python's handler would print a traceback for a Ctrl-C during the import. The default action
    # ends the process silently.
    if is_raised:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from modelflow.cli.main import main as run

    if is_raised:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _open_streams() -> None:
    """Opens standard streams that are closed (``2>&-``) on the null device.

    Otherwise the next file that is opened would get the number of the closed stream. Writes to such
    a stream are lost, as they are in Python without this. Reading from it is an error.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, opener=_open_lowest)  # noqa: SIM115 - for the process
            setattr(sys, name, stream)


def _open_lowest(path: str, _flags: int) -> int:
    # POSIX assigns the lowest free number, which is that of the closed stream
    number = os.open(path, os.O_WRONLY)
    os.set_inheritable(number, True)
    return number


if __name__ == "__main__":
    main()
