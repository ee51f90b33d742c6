"""An editor of one graph file, in the browser."""

from pathlib import Path
from types import TracebackType
from typing import Self

from modelflow.config.read import form_of
from modelflow.errors import ConfigError
from modelflow.studio.edit.edit_desk import EditDesk
from modelflow.studio.edit.graph_file import GraphFile
from modelflow.studio.site import Site

__all__ = ["Editor"]


class Editor:
    """Serves the pages while its ``with`` block runs.

    Attributes:
        url: Where they are; with the token without which nothing is shown.
    """

    def __init__(self, path: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        """Takes the file and the address.

        Args:
            path: A graph file, TOML or DOT; it is made by the first save where it is not there.
            host: Where to listen.
            port: 0: any that is free.

        Raises:
            ConfigError: files of that form are not edited.
            OSError: the address is in use, or not of this machine.
        """
        form = form_of(path)
        if form not in ("toml", "dot"):
            message = (
                f"{path}: {form.upper()} is not edited; write the graph as TOML first: modelflow "
                f"convert {path} -o {path.with_suffix('.toml')}"
            )
            raise ConfigError(message)
        self._path = path
        self._site = Site(host, port)
        self.url = self._site.url

    def __enter__(self) -> Self:
        """Begins to answer.

        Raises:
            OSError: somebody else listens there.
            MissingDependencyError: what reads requests is not installed.
        """
        site = self._site
        self._desk = EditDesk(site.gate, GraphFile(self._path), lambda: site.mailbox)
        try:
            site.open(self._desk)
        except BaseException:
            self._desk.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends what is run, and answers no more."""
        self._desk.close()
        self._site.close()
