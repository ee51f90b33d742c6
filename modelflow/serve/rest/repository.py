"""The health and repository endpoints of REST: ready, index, load and unload."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import JSON, answer_change, refusal, whole_body
from modelflow.serve.access.keys import Group
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.interfaces import ModelSource, ReplicaGroup
from modelflow.serve.options import ServeOptions
from modelflow.serve.protocols.load_parameters import read_load_parameters
from modelflow.serve.protocols.open_inference import index_of
from modelflow.wire.json_reader import read_json
from modelflow.wire.json_writer import json_of
from modelflow.wire.problem import Code, Problem, refuse

_MODEL = "/v2/repository/models/(?P<name>[^/]+)"


class RepositoryRest:
    """The endpoints for health and for the repository."""

    def __init__(
        self, stock: ModelSource, replica_group: ReplicaGroup, options: ServeOptions
    ) -> None:
        """Creates the endpoints.

        Args:
            stock: The source of the models.
            replica_group: The group that loads and unloads models.
            options: The limits on bodies.
        """
        self._group = replica_group
        self._models = stock.models
        self._stock = stock
        self._options = options
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint("/livez|/v2/health/live", GET=_live).of(None),
            endpoint("/readyz|/v2/health/ready", GET=self._ready).of(None),
            endpoint("/v2/repository/index", POST=self._index).of(Group.REPOSITORY),
            endpoint(f"{_MODEL}/load", POST=self._load).of(Group.REPOSITORY),
            endpoint(f"{_MODEL}/unload", POST=self._unload).of(Group.REPOSITORY),
        )

    def _ready(self, http_request: HttpRequest, _: Mapping[str, str]) -> None:
        reason = self._stock.unready()
        if reason:
            http_request.answer(refusal(Problem(reason, Code.UNAVAILABLE)))
        else:
            http_request.answer(Reply(200, b"", {}))

    def _index(self, http_request: HttpRequest, _: Mapping[str, str]) -> None:
        is_ready_alone = bool(self._document(http_request).get("ready"))
        rows = index_of(self._models, is_ready_alone=is_ready_alone)
        http_request.answer(Reply(200, json_of(rows), JSON))

    def _load(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        parameters = self._document(http_request).get("parameters") or {}
        if not isinstance(parameters, dict):
            refuse("load: parameters: expected a JSON object")
        tuning = read_load_parameters(path["name"], parameters)
        self._group.load(path["name"], partial(answer_change, http_request), tuning)

    def _unload(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        self._group.unload(path["name"], partial(answer_change, http_request))

    def _document(self, http_request: HttpRequest) -> Mapping[str, Any]:
        body = whole_body(http_request, self._options.expanded)
        document = read_json(body, self._options.json) if body.strip() else {}
        if not isinstance(document, dict):
            refuse("request: expected a JSON object, or an empty body")
        return document


def _live(http_request: HttpRequest, _: Mapping[str, str]) -> None:
    http_request.answer(Reply(200, b"", {}))
