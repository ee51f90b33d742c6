"""Who answers a request that comes over HTTP."""

from functools import partial
from http import HTTPStatus

from modelflow.http.body import BodyLimits, RefusedError
from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.generate import Generate
from modelflow.serve.metrics import Metrics
from modelflow.serve.models import Models
from modelflow.serve.open_inference_rest import OpenInferenceRest
from modelflow.serve.refusal import refusal
from modelflow.serve.repository import Repository
from modelflow.serve.repository_rest import RepositoryRest
from modelflow.serve.router import find
from modelflow.serve.tensorflow_rest import TensorflowRest
from modelflow.wire.problem import Code, Problem

__all__ = ["Front"]


class Front:
    """Answers every request that comes over HTTP. On the server's thread."""

    def __init__(self, models: Models, repository: Repository, limits: BodyLimits) -> None:
        """Takes what there is to answer with.

        Args:
            models: What is served.
            repository: What loads and unloads it.
            limits: What bodies may be.
        """
        self._limits = limits
        most = limits.most
        self._endpoints = (
            *TensorflowRest(models).endpoints,
            *OpenInferenceRest(models, most).endpoints,
            *Generate(models, most).endpoints,
            *RepositoryRest(models, repository, most).endpoints,
            *Metrics(models).endpoints,
        )

    def begin(self, exchange: Exchange) -> BodyLimits:
        """Finds out who answers a request.

        Raises:
            RefusedError: nobody does.
        """
        found = find(self._endpoints, exchange)
        if isinstance(found, Reply):
            if found.status == HTTPStatus.NOT_FOUND:
                message = f"Malformed request: {exchange.method} {exchange.path}"
                found = refusal(Problem(message, Code.NOT_FOUND))
            raise RefusedError(found)
        return self._limits

    def handle(self, exchange: Exchange) -> None:
        """Answers a whole request, now or later."""
        exchange.on_end = partial(self._limits.budget.give_back, len(exchange.body))
        found = find(self._endpoints, exchange)
        assert not isinstance(found, Reply)  # `begin` has found it
        try:
            found()
        except Problem as problem:
            exchange.answer(refusal(problem))
