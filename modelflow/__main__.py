"""The program ``modelflow``, and ``python -m modelflow``: the command line."""

import os
import signal
import sys


def main() -> None:
    """Loads the command line, and runs it; see `modelflow.cli.main.main`."""
    _open_streams()
    is_raised = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_raised:  # while it is loaded a Ctrl-C ends the process, and nothing need be said
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from modelflow.cli.main import main as run

    if is_raised:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _open_streams() -> None:
    """Opens streams that are closed (``2>&-``), so that no other file gets their numbers.

    What is written to them is lost, as Python loses it; what is read of them is an error.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, opener=_open_lowest)  # noqa: SIM115 - for the process
            setattr(sys, name, stream)


def _open_lowest(path: str, _flags: int) -> int:
    number = os.open(path, os.O_WRONLY)  # the lowest that is free
    os.set_inheritable(number, True)
    return number


if __name__ == "__main__":
    main()
