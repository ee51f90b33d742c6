"""The program ``modelflow``, and ``python -m modelflow``: the command line."""

import signal

__all__ = ["main"]


def main() -> None:
    """Loads the command line, and runs it; see `modelflow.cli.main.main`."""
    is_raised = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_raised:  # while it is loaded a Ctrl-C ends the process, and nothing need be said
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from modelflow.cli.main import main as run

    if is_raised:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
