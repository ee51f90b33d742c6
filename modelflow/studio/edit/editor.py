"""An editor of one graph file in the browser, and the handler of its requests.

Requests run one after the other on other threads than the server's, because they import units. That
is foreign code, which may never return. Therefore each request has a time limit (`TaskQueue`).
"""

import json
import logging
import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from modelflow.config.document import MOST_BYTES
from modelflow.config.read import form_of
from modelflow.errors import ConfigError, ModelflowError, describe_error
from modelflow.http.reply import BodyBudget, BodyLimits, Reply, reply_of_status
from modelflow.http.request import HttpRequest, StreamingReply
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.studio.edit.graph_file import ChangedError, GraphFile
from modelflow.studio.edit.task_queue import Task, TaskQueue
from modelflow.studio.edit.tasks import Asked, BadTaskError, Tasks
from modelflow.studio.edit.trial.trials import Trials
from modelflow.studio.pages import EDITOR_PAGES, HEADERS, STREAM, json_reply, page_reply
from modelflow.studio.site import Site, TokenCheck

_log = logging.getLogger(__name__)
_API = "/api/"
_EVENTS = "/events"
_VALUE = re.compile(r"/value/([0-9]{1,9})")
# A text may be more than twice as long in JSON. A request contains one text, perhaps a clipping.
_MOST = 6 * MOST_BYTES
# The limit for a request that contains files.
_MOST_FILES = 256 << 20
_WITH_FILES = (f"{_API}run", f"{_API}upload")
_TOO_LONG = "; put the file into the folder of the graph file, and choose it in the list there"
_SECONDS = 30.0
# The import of a large framework from a slow disk takes much less time than this.
_MOST_WORK_SECONDS = 60.0
_LAST_WORK_SECONDS = 5.0


class EditHandler:
    """The handler of all requests; ``begin`` and ``handle`` run on the server's thread."""

    def __init__(
        self,
        gate: TokenCheck,
        file: GraphFile,
        loop_queue: Callable[[], LoopQueue],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Takes the check, the file and the loop.

        Args:
            gate: The check of requests.
            file: The edited file.
            loop_queue: Returns the event loop of the server.
            clock: The clock for the time limit of requests.
        """
        self._gate = gate
        self._loop_queue = loop_queue
        self._trials = Trials()
        self._tasks = Tasks(file, self._trials).by_name
        self._clerk = TaskQueue(_MOST_WORK_SECONDS, _LAST_WORK_SECONDS, clock)
        self._limits = BodyLimits(_MOST, BodyBudget(4 * _MOST), _SECONDS)
        budget = BodyBudget(2 * _MOST_FILES)
        self._file_limits = BodyLimits(_MOST_FILES, budget, _SECONDS, _TOO_LONG)

    def close(self) -> None:
        """Stops the trial run, and waits a little for the current request."""
        self._trials.stop()
        self._clerk.close()
        self._trials.give_up()  # an abandoned request must not start a run afterwards
        self._trials.close()

    def begin(self, http_request: HttpRequest) -> BodyLimits:
        """Checks the head of a request.

        Raises:
            RefusedError: The request is not allowed.
        """
        path = http_request.path
        is_task = path.startswith(_API)
        is_secret = is_task or path in ("/", _EVENTS) or _VALUE.fullmatch(path) is not None
        method = "POST" if is_task else "GET"
        self._gate.check(http_request.head, is_secret=is_secret, method=method)
        return self._limits_of(path)

    def _limits_of(self, path: str) -> BodyLimits:
        return self._file_limits if path in _WITH_FILES else self._limits

    def handle(self, http_request: HttpRequest) -> None:
        """Answers a request, at once or through the task queue."""
        path = http_request.path
        self._limits_of(path).budget.give_back(len(http_request.body))
        task = self._tasks.get(path.removeprefix(_API)) if path.startswith(_API) else None
        if path == f"{_API}stop":  # at once, even if a task is running
            self._trials.stop()
            http_request.answer(json_reply(self._trials.document()))
        elif task is not None:
            self._clerk.take(
                Task(
                    partial(self._work, task, http_request),
                    partial(self._give_up, http_request),
                    partial(http_request.answer_soon, _CLOSED),
                )
            )
        elif path == _EVENTS:
            http_request.answer(self._follow())
        elif (value := _VALUE.fullmatch(path)) is not None:
            http_request.answer(self._show(int(value[1])))
        else:
            http_request.answer(page_reply(EDITOR_PAGES, path))

    def _follow(self) -> Reply | StreamingReply:
        viewer = self._trials.viewer(self._loop_queue())
        if viewer is None:
            return reply_of_status(HTTPStatus.NOT_FOUND, "nothing has been run")
        return StreamingReply(200, viewer.begin, STREAM)

    def _show(self, number: int) -> Reply:
        picture = self._trials.picture(number)
        if picture is None:
            return reply_of_status(HTTPStatus.NOT_FOUND, "this image is not kept any more")
        return Reply(200, picture.contents, {**HEADERS, "content-type": picture.kind})

    def _give_up(self, http_request: HttpRequest) -> None:
        """Answers a request that has exceeded its time limit."""
        self._trials.give_up()
        text = (
            f"{http_request.path} took longer than {_MOST_WORK_SECONDS:g} s and was given up; "
            f"it may "
            "still be done later. Most likely a unit's module does not return when it is imported: "
            "correct it, then start the editor again, because that import continues until then"
        )
        _log.error("%s", text)
        http_request.answer_soon(json_reply({"error": text}, HTTPStatus.GATEWAY_TIMEOUT))

    def _work(self, task: Callable[[Asked], dict[str, Any]], http_request: HttpRequest) -> None:
        try:
            reply = json_reply(task(_read_request(http_request.body)))
        except BadTaskError as error:
            reply = json_reply({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except ChangedError as error:
            found = {"error": str(error), **error.stand._asdict()}
            reply = json_reply(found, HTTPStatus.CONFLICT)
        except ModelflowError as error:
            reply = json_reply({"error": str(error)}, HTTPStatus.UNPROCESSABLE_ENTITY)
        except BaseException as error:  # noqa: BLE001 - reported to the page and to the log
            _log.exception("a request of the editor failed")
            text = f"the editor failed: {describe_error(error)}; see its log"
            reply = json_reply({"error": text}, HTTPStatus.INTERNAL_SERVER_ERROR)
        http_request.answer_soon(reply)


def _read_request(body: bytes) -> Asked:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadTaskError(f"the body is no JSON: {error}") from error
    if not isinstance(asked, dict):
        raise BadTaskError(f"the body: got {type(asked).__name__}; expected an object")
    return asked


_CLOSED = json_reply({"error": "the editor is being closed"}, HTTPStatus.SERVICE_UNAVAILABLE)


class Editor:
    """A server of the editor's pages, which runs inside its ``with`` block.

    Attributes:
        url: The URL of the pages, with the token that they require.
    """

    def __init__(self, path: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        """Takes the file and reserves the address.

        Args:
            path: A graph file, TOML or DOT. The first save creates a file that does not exist.
            host: The host to listen at.
            port: The port. 0 selects any free port.

        Raises:
            ConfigError: Files of that format cannot be edited.
            OSError: The address is in use, or does not belong to this machine.
        """
        form = form_of(path)
        if form not in ("toml", "dot"):
            raise ConfigError(
                f"{path}: {form.upper()} is not edited; write the graph as TOML first: modelflow "
                f"convert {path} -o {path.with_suffix('.toml')}"
            )
        self._path = path
        self._site = Site(host, port)
        self.url = self._site.url

    def __enter__(self) -> Self:
        """Starts answering.

        Raises:
            OSError: Another process listens at the address.
            MissingDependencyError: The package that reads requests is not installed.
        """
        site = self._site
        self._desk = EditHandler(site.gate, GraphFile(self._path), lambda: site.loop_queue)
        try:
            site.open(self._desk)
        except BaseException:
            self._desk.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the trial run and the server."""
        self._desk.close()
        self._site.close()
