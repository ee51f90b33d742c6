"""``/stats``: the statistics of a model's nodes, for ``modelflow top`` and ``doctor``."""

from collections.abc import Mapping, Sequence
from functools import partial

from modelflow.errors import did_you_mean
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import JSON, settle
from modelflow.serve.access.keys import Group
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.interfaces import GroupCounts, ReplicaGroup
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.wire.json_writer import json_of
from modelflow.wire.problem import Code, Problem, refuse, shorten

_LONG = 200  # characters; suggestions for longer names would be useless and slow


class StatsPages:
    """The endpoints of the statistics of every node, summed over all processes."""

    def __init__(self, replica_group: ReplicaGroup) -> None:
        """Stores the group that collects counts."""
        self._group = replica_group
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint("/stats", GET=self._ask).of(Group.METRICS),
            endpoint("/stats/(?P<name>[^/]+)", GET=self._ask).of(Group.METRICS),
            endpoint("/stats/(?P<name>[^/]+)/versions/(?P<version>[^/]+)", GET=self._ask).of(
                Group.METRICS
            ),
        )

    def _ask(self, http_request: HttpRequest, names: Mapping[str, str]) -> None:
        self._group.counts(partial(settle, http_request, _make_reply, names))


def _make_reply(names: Mapping[str, str], counts: GroupCounts) -> Reply:
    model = _find(counts.snapshots, names.get("name"), names.get("version"))
    return Reply(200, json_of(model.snapshot.document()), JSON)


def _find(
    snapshots: Sequence[ModelSnapshot], name: str | None, version: str | None
) -> ModelSnapshot:
    """Returns the snapshot of the requested model. The default version is the newest.

    Raises:
        Problem: The model or version is not served, or the path must name one of several models.
    """
    served = sorted({model.name for model in snapshots})
    if name is None:
        if len(served) != 1:
            known = ", ".join(served) or "no model"
            refuse(f"/stats: expected /stats/NAME; served: {known}", Code.NOT_FOUND)
        name = served[0]
    of_name = [model for model in snapshots if model.name == name]
    if not of_name:
        near = did_you_mean(name, served) if len(name) < _LONG else ""
        refuse(f"/stats: no model {shorten(name)} is served{near}", Code.NOT_FOUND)
    if version is None:
        return max(of_name, key=lambda model: model.version)
    for model in of_name:
        if str(model.version) == version:
            return model
    known = ", ".join(str(model.version) for model in of_name)
    raise Problem(
        f"/stats: no version {shorten(version)} of model {shorten(name)}; served: {known}",
        Code.NOT_FOUND,
    )
