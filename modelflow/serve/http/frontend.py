"""The handler of all HTTP requests of a server."""

from http import HTTPStatus

from modelflow.http.reply import BodyBudget, BodyLimits, RefusedError, Reply, busy_error
from modelflow.http.request import HttpRequest, RequestHead
from modelflow.serve.access.error_reply import JSON, refusal, refusal_of
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.access.router import Route, Router
from modelflow.serve.http.dashboard import Dashboard
from modelflow.serve.http.metrics import MetricsPage
from modelflow.serve.http.pages import Pages
from modelflow.serve.http.stats import StatsPages
from modelflow.serve.interfaces import ModelSource, ReplicaGroup
from modelflow.serve.options import ServeOptions
from modelflow.serve.rest.generate import Generate
from modelflow.serve.rest.open_inference import OpenInferenceRest
from modelflow.serve.rest.repository import RepositoryRest
from modelflow.serve.rest.shared_memory import SharedMemoryRest
from modelflow.serve.rest.tf_serving import TensorflowRest
from modelflow.wire.json_writer import json_of
from modelflow.wire.problem import Code, Problem, sendable

# The routes that are answered when clients hold all connections.
_OPERATIONS = frozenset(
    {
        *("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"),
        *("/metrics", "/monitoring/prometheus/metrics"),
        *("/stats", "/stats/{name}", "/stats/{name}/versions/{version}"),
    }
)


class HttpFrontend:
    """The handler of all HTTP requests. Call the methods on the server's thread."""

    def __init__(
        self,
        stock: ModelSource,
        replica_group: ReplicaGroup,
        options: ServeOptions,
        budget: BodyBudget,
        middleware: Middleware,
    ) -> None:
        """Creates the endpoints.

        Args:
            stock: The source of the models.
            replica_group: The group that loads and unloads models.
            options: The limits on bodies.
            budget: The byte budget for bodies.
            middleware: The checks for every request.
        """
        self._middleware = middleware
        self._limits = BodyLimits(options.max_body, budget, options.body_time_out)
        models = stock.models
        self._dashboard = Dashboard(replica_group, models)
        endpoints = (
            *TensorflowRest(models, options).endpoints,
            *OpenInferenceRest(models, replica_group, options).endpoints,
            *Generate(models, options).endpoints,
            *SharedMemoryRest(models.regions, replica_group, options).endpoints,
            *RepositoryRest(stock, replica_group, options).endpoints,
            *MetricsPage(replica_group, models, middleware).endpoints,
            *StatsPages(replica_group).endpoints,
            *self._dashboard.endpoints,
            *Pages(stock, has_keys=self._middleware.keys is not None).endpoints,
        )
        self._router = Router(endpoints)

    def start(self) -> None:
        """Starts the history of the models."""
        self._dashboard.start()

    def end(self) -> None:
        """Ends the endless streams because the server stops."""
        self._dashboard.end()

    def begin(self, http_request: HttpRequest) -> BodyLimits:
        """Finds the handler of a request, and returns the limits on the body.

        Raises:
            RefusedError: No endpoint matches, or the key does not open the endpoint.
        """
        route = http_request.head.route
        if route is None:
            route = http_request.head.route = self._route(http_request.head)
        is_seen, found = route
        if http_request.is_spare and found.form.route not in _OPERATIONS:
            raise busy_error()
        if is_seen:
            self._middleware.receive(http_request, found.form)
            if self._middleware.keys is not None:
                self._middleware.admit(http_request, found.form.group)
        if isinstance(found.answer, Reply):
            raise RefusedError(found.answer)
        if not is_seen:
            http_request.head.limits = self._limits
        return self._limits

    def _route(self, head: RequestHead) -> tuple[bool, Route]:
        """Returns whether the middleware must see requests with this head, and their route."""
        is_seen = self._middleware.sees_all or not self._middleware.marks.isdisjoint(head.named)
        found = self._router.find(head.method, head.target)
        if isinstance(found.answer, Reply):
            found = found._replace(answer=_explain(head, found.answer))
        return is_seen, found

    def handle(self, http_request: HttpRequest) -> None:
        """Answers a whole request, now or later."""
        http_request.budget = self._limits.budget
        _, route = http_request.head.route
        try:
            route.answer(http_request, route.names)
        except Exception as error:  # noqa: BLE001 - the client must get a reply to any error
            http_request.answer(refusal_of(error))


def _explain(head: RequestHead, nobody: Reply) -> Reply:
    """Returns the error reply for a path without endpoint or a wrong method, with a hint."""
    message = f"Malformed request: {head.method} {head.target.partition('?')[0]}"
    if nobody.status == HTTPStatus.NOT_FOUND:
        return refusal(Problem(f"{message}; /docs lists the endpoints", Code.NOT_FOUND))
    message = f"{message}; expected {nobody.headers['allow']}"
    headers = {**JSON, **nobody.headers}
    return Reply(nobody.status, json_of({"error": sendable(message)}), headers)
