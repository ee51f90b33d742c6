"""The endpoints of shared memory: status, register and unregister."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import JSON, answer_change, whole_body
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.interfaces import ReplicaGroup
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.state.shared_memory import SharedRegions, refuse_cuda
from modelflow.wire.json_reader import read_json
from modelflow.wire.json_writer import json_of
from modelflow.wire.problem import refuse

_NAMED = "/v2/{}sharedmemory/region/(?P<name>[^/]+)"
_ALL = "/v2/{}sharedmemory"


class SharedMemoryRest:
    """The endpoints of the system shared memory extension, and refusals for CUDA."""

    def __init__(
        self, regions: SharedRegions, replica_group: ReplicaGroup, options: ServeOptions
    ) -> None:
        """Stores the regions, the group of processes, and the limits on bodies."""
        self._regions = regions
        self._group = replica_group
        self._options = options
        status, unregister = partial(_answer, self._list), self._unregister
        self.endpoints: tuple[Endpoint, ...] = (
            *_endpoints("system", status, unregister, self._register),
            *_endpoints("cuda", partial(_answer, _list_nothing), _do_nothing, _refuse_register),
        )

    def _list(self, name: str = "") -> list[dict[str, Any]]:
        return self._regions.list(name)

    def _register(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        body = whole_body(http_request, self._options.expanded)
        document = read_json(body, self._options.json)
        if not isinstance(document, dict):
            refuse("request: expected a JSON object with key, offset and byte_size")
        region = {"key": None, "offset": 0, "byte_size": None, **document, "name": path["name"]}
        keys = ("name", "key", "offset", "byte_size")
        change = {"register": {key: region[key] for key in keys}}
        self._group.share(change, partial(answer_change, http_request))

    def _unregister(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        change = {"unregister": path.get("name", "")}
        self._group.share(change, partial(answer_change, http_request))


def _endpoints(kind: str, status: Any, unregister: Any, register: Any) -> list[Endpoint]:
    named, whole = _NAMED.format(kind), _ALL.format(kind)
    return [
        endpoint(f"{named}/status", GET=status),
        endpoint(f"{whole}/status", GET=status),
        endpoint(f"{named}/register", POST=register),
        endpoint(f"{named}/unregister", POST=unregister),
        endpoint(f"{whole}/unregister", POST=unregister),
    ]


def _answer(make: Any, http_request: HttpRequest, path: Mapping[str, str]) -> None:
    http_request.answer(Reply(200, json_of(make(**path)), JSON))


def _list_nothing(name: str = "") -> list[dict[str, Any]]:
    if name:
        raise refuse_cuda()
    return []


def _do_nothing(http_request: HttpRequest, _: Mapping[str, str]) -> None:
    """Succeeds, because no region of a GPU is registered."""
    http_request.answer(Reply(200, b"", {}))


def _refuse_register(_: HttpRequest, __: Mapping[str, str]) -> None:
    raise refuse_cuda()
