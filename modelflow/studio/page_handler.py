"""Answers the requests of the pages."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from modelflow.errors import ModelflowError, describe_error
from modelflow.http.reply import BodyBudget, BodyLimits, Reply, reply_of_status
from modelflow.http.request import HttpRequest, StreamingReply
from modelflow.studio.pages import HEADERS, PAGES, STREAM, json_reply, page_reply
from modelflow.studio.recorder import Recorder
from modelflow.studio.site import TokenCheck
from modelflow.studio.snapshot_feed import Viewer

_log = logging.getLogger(__name__)
EVENTS = "/events"
_NO_BODY = BodyLimits(0, BodyBudget(0), 5.0)


class PageHandler:
    """The handler of all requests to the dashboard; runs on the server's thread."""

    def __init__(
        self, gate: TokenCheck, viewer: Callable[[], Viewer], recorder: Recorder | None
    ) -> None:
        """Takes the check of requests, a factory of viewers, and the recorder."""
        self._gate = gate
        self._viewer = viewer
        self._recorder = recorder
        self._clerk = ThreadPoolExecutor(1, "modelflow-studio/clerk")
        self._tasks: Mapping[tuple[str, str], Callable[[Recorder], Reply]] = {
            ("POST", "/record"): _record,
            ("POST", "/halt"): _halt,
            ("GET", "/requests"): lambda recorder: json_reply(recorder.requests()),
            ("GET", "/trace.json.gz"): _trace,
        }

    def close(self) -> None:
        """Ends the thread of the recorder's tasks after the current task."""
        self._clerk.shutdown(cancel_futures=True)

    def begin(self, http_request: HttpRequest) -> BodyLimits:
        """Checks the head of a request.

        Raises:
            RefusedError: The request is not allowed.
        """
        path = http_request.path
        methods = [method for method, one in self._tasks if one == path] or ["GET"]
        is_secret = path in ("/", EVENTS) or any(one == path for _, one in self._tasks)
        self._gate.check(http_request.head, is_secret=is_secret, method=methods[0])
        return _NO_BODY

    def handle(self, http_request: HttpRequest) -> None:
        """Answers a request."""
        task = self._tasks.get((http_request.head.method, http_request.path))
        if http_request.path == EVENTS:
            http_request.answer(StreamingReply(200, self._viewer().begin, STREAM))
        elif task is not None and self._recorder is not None:
            try:
                self._clerk.submit(_work, task, self._recorder, http_request)
            except RuntimeError:  # the executor was shut down
                text = "the dashboard is being closed"
                http_request.answer(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, text))
        else:
            http_request.answer(page_reply(PAGES, http_request.path))


def _work(task: Callable[[Recorder], Reply], recorder: Recorder, http_request: HttpRequest) -> None:
    try:
        reply = task(recorder)
    except ModelflowError as error:
        reply = reply_of_status(HTTPStatus.NOT_FOUND, str(error))
    except BaseException as error:  # noqa: BLE001 - reported to the page and to the log
        _log.exception("a request of the dashboard failed")
        text = f"the dashboard failed: {describe_error(error)}; see its log"
        reply = reply_of_status(HTTPStatus.INTERNAL_SERVER_ERROR, text)
    http_request.answer_soon(reply)


def _record(recorder: Recorder) -> Reply:
    recorder.start()
    return json_reply({})


def _halt(recorder: Recorder) -> Reply:
    recorder.stop()
    return json_reply({})


def _trace(recorder: Recorder) -> Reply:
    headers = {
        **HEADERS,
        "content-type": "application/gzip",
        "content-disposition": 'attachment; filename="trace.json.gz"',
    }
    return Reply(200, recorder.trace(), headers)
