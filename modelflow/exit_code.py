"""The exit codes of all commands, with what the documentation says of each."""

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """The exit code of a command; that of a signal is 128 and its number, as shells have it.

    Attributes:
        meaning: What the code says, in Markdown.
        example: A command that ends so, in Markdown.
    """

    meaning: str
    example: str

    def __new__(cls, code: int, meaning: str, example: str) -> Self:
        """Returns the code with what its row in the documentation says."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        member.example = example
        return member

    OK = 0, "all is well", "`modelflow check graph.toml` of a graph without mistakes"
    FAILED = (
        1,
        "something is wrong, and said on stderr: the graph, an item, a model, a port in use",
        "`modelflow check` of a graph with a mistake; `modelflow run` when an item failed (0 with "
        "`--keep-going`)",
    )
    USAGE = (
        2,
        "the arguments are wrong",
        "`modelflow chek`; an input of the graph that gets nothing",
    )
    FOUND = (
        3,
        "nothing failed, and something was found that limits the flow",
        "`modelflow doctor` (0 where nothing is wrong)",
    )
    INTERRUPTED = (
        130,
        "Ctrl-C (SIGINT); while the program is still being loaded the signal itself, which shells "
        "tell as 130",
        "`modelflow run` that was stopped: how far it came is said, `--resume` goes on",
    )
    UNREAD = (
        141,
        "whoever read the output has gone",
        "`modelflow schema | head -1`, where that has read enough",
    )
    TERMINATED = (
        143,
        "SIGTERM: what was taken on was finished first",
        "a server that its service manager stops; a second SIGTERM ends it at once",
    )
