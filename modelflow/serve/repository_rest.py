"""What is served and how it fares, over REST: health, index, load and unload."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.compression import whole_body
from modelflow.serve.keys import Group
from modelflow.serve.limits import ReadLimits
from modelflow.serve.models import Models
from modelflow.serve.open_inference import index_of
from modelflow.serve.refusal import JSON, refusal
from modelflow.serve.repository import Repository
from modelflow.serve.router import Endpoint, endpoint
from modelflow.serve.shelf import reason_of
from modelflow.wire.json_document import read_json
from modelflow.wire.json_text import json_of
from modelflow.wire.problem import Code, Problem

__all__ = ["RepositoryRest"]

_MODEL = "/v2/repository/models/(?P<name>[^/]+)"


class RepositoryRest:
    """Answers health and repository requests."""

    def __init__(
        self, models: Models, repository: Repository, limits: ReadLimits, *, is_allowed: bool
    ) -> None:
        """Takes what is served.

        Args:
            models: What is served.
            repository: What loads and unloads it.
            limits: What a body may hold.
            is_allowed: Whether clients may load and unload.
        """
        self._models = models
        self._repository = repository
        self._limits = limits
        self._is_allowed = is_allowed
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint("/livez|/v2/health/live", GET=_live).of(None),
            endpoint("/readyz|/v2/health/ready", GET=self._ready).of(None),
            endpoint("/v2/repository/index", POST=self._index).of(Group.REPOSITORY),
            endpoint(f"{_MODEL}/load", POST=self._load).of(Group.REPOSITORY),
            endpoint(f"{_MODEL}/unload", POST=self._unload).of(Group.REPOSITORY),
        )

    def _ready(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        unready = self._models.unready()
        if self._repository.is_ending:
            exchange.answer(_unready("the server is being stopped"))
        elif unready:
            told = (f"model {name!r}: {reason}" for name, reason in unready.items())
            exchange.answer(_unready("; ".join(told)))
        else:
            exchange.answer(Reply(200, b"", {}))

    def _index(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        is_ready_alone = bool(self._document(exchange).get("ready"))
        rows = index_of(self._models)
        if is_ready_alone:
            rows = [row for row in rows if row["state"] == "READY"]
        exchange.answer(Reply(200, json_of(rows), JSON))

    def _load(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        self._check_allowed()
        if self._document(exchange).get("parameters"):
            message = "load: parameters (config, files) are not supported; expected none"
            raise Problem(message, Code.UNIMPLEMENTED)

        self._repository.load(path["name"], partial(_loaded, exchange, path["name"]))

    def _unload(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        self._check_allowed()
        self._repository.unload(path["name"])
        exchange.answer(Reply(200, b"", {}))

    def _check_allowed(self) -> None:
        if not self._is_allowed:
            message = "models may not be loaded or unloaded here; serve with --allow-repository"
            raise Problem(message, Code.PERMISSION_DENIED)

    def _document(self, exchange: Exchange) -> Mapping[str, Any]:
        body = whole_body(exchange, self._limits.decompressed)
        document = read_json(body, self._limits.json) if body.strip() else {}
        if not isinstance(document, dict):
            message = "request: expected a JSON object, or nothing"
            raise Problem(message)
        return document


def _loaded(exchange: Exchange, name: str, error: Exception | None) -> None:
    if error is None:
        exchange.answer(Reply(200, b"", {}))
        return
    code = error.code if isinstance(error, Problem) else Code.INVALID_ARGUMENT
    exchange.answer(refusal(Problem(f"failed to load {name!r}: {reason_of(error)}", code)))


def _live(exchange: Exchange, _: Mapping[str, str]) -> None:
    exchange.answer(Reply(200, b"", {}))


def _unready(text: str) -> Reply:
    return refusal(Problem(text, Code.UNAVAILABLE))
