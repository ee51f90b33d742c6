"""``ModelInfer`` requests of one turn of the server's loop, which models take together."""

import asyncio
from collections.abc import Callable
from functools import partial

from modelflow.serve.grpc.infer_rows import InferRows
from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.model import Model
from modelflow.serve.open_inference import find_model
from modelflow.serve.repository.models import Models
from modelflow.serve.status import inside
from modelflow.wire.open_inference.infer import InferRequest
from modelflow.wire.open_inference.infer_message import infer_request
from modelflow.wire.problem import Problem

__all__ = ["InferGathering"]


class InferGathering:
    """Small requests of all models. For the server's thread."""

    def __init__(self, models: Models, ask: Callable[[Rpc, Model, InferRequest], None]) -> None:
        """Takes what is served, and what has a model answer a request by itself."""
        self._models = models
        self._ask = ask
        self._reader = InferRows(self._alone)
        self._requests: list[Rpc] = []

    def add(self, rpc: Rpc) -> None:
        """Takes a request: it is read when this turn of the loop is over."""
        if not self._requests:
            asyncio.get_running_loop().call_soon(self._end)
        self._requests.append(rpc)

    def _end(self) -> None:
        requests, self._requests = self._requests, []
        asked: dict[tuple[str, str], list[Rpc]] = {}
        for rpc in requests:
            if not rpc.is_over:  # else who asked has gone
                message = rpc.body
                asked.setdefault((message.model_name, message.model_version), []).append(rpc)
        for (name, version), together in asked.items():
            self._send(name, version, together)

    def _send(self, name: str, version: str, together: list[Rpc]) -> None:
        try:
            model = find_model(self._models, name, version)
        except Problem as missing:
            for rpc in together:
                # What is wrong with the message is said first.
                self._read(rpc, partial(_refuse, rpc, missing))
            return
        try:
            model.receive(together, self._reader)
        except Exception as error:  # noqa: BLE001 - of whatever kind, nobody is left waiting
            problem = inside(error)
            for rpc in together:
                rpc.refuse(problem)

    def _alone(self, rpc: Rpc, model: Model) -> None:
        self._read(rpc, partial(self._ask, rpc, model))

    def _read(self, rpc: Rpc, then: Callable[[InferRequest], None]) -> None:
        try:
            then(infer_request(rpc.body))
        except Problem as problem:
            rpc.refuse(problem)
        except Exception as error:  # noqa: BLE001 - the others are answered all the same
            rpc.refuse(inside(error))


def _refuse(rpc: Rpc, problem: Problem, _: InferRequest) -> None:
    rpc.refuse(problem)
