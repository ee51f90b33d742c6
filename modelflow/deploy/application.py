"""`Application`: the description of a graph to deploy."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelflow.graph.graph import Graph

USER = 10001
"""The user id of the server in the image, which no base image uses."""

# Seconds that a server may need after its drain timeout: two, and one more before it is killed.
_LAST_SECONDS = 3
LEAVING_SECONDS = 5
"""Seconds that a pod continues before its stop, because requests still arrive."""
# The length of a DNS label, minus the suffixes that Helm and Kubernetes add.
_LONGEST = 50


class Needs(NamedTuple):
    """The requirements of a graph on its machine."""

    gpus: int
    """The number of GPUs."""
    batch: int
    """The rows of the largest batch of a node."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """A graph to deploy, with its settings.

    Attributes:
        model: The name for clients.
        modelflow: The version of modelflow.
        python: The version of Python: ``3.11``.
        extras: The extras of modelflow to install.
        needs: The requirements on the machine.
        inputs: The names of the graph's inputs.
        image: The name of its image, with a tag.
        http_port: The port of HTTP.
        grpc_port: The port of gRPC. None switches gRPC off.
        drain: Seconds within which requests in progress are answered at the end.
        delay: Seconds before that, in which the server still answers but reports not ready.
        replicas: The least and the largest number of replicas.
        wheel: The file of modelflow's own wheel in the folder. If empty, pip takes modelflow from
            an index.
        wheel_hash: The SHA-256 of that file, in hexadecimal.
        settings: Environment variables for its start. The image does not contain them, because more
            people may have the image than may know them.
        mounts: Folders of files outside the image, such as keys and certificates. The key is the
            name of the Secret, or of the folder next to the other files. The value is the path in
            the container.
        base: The base image, with its digest. If empty, the slim image of `python`.
        is_for_kserve: Whether to write KServe's ``ServingRuntime`` as well.
        prometheus: The URL of Prometheus for KEDA. If empty, Kubernetes itself scales the pods.
    """

    model: str
    modelflow: str
    python: str
    extras: tuple[str, ...]
    needs: Needs
    inputs: tuple[str, ...]
    image: str
    http_port: int = 8501
    grpc_port: int | None = 8500
    drain: int = 30
    delay: int = 0
    replicas: tuple[int, int] = (1, 4)
    wheel: str = ""
    wheel_hash: str = ""
    settings: "Mapping[str, str]" = field(default_factory=dict)
    mounts: "Mapping[str, str]" = field(default_factory=dict)
    base: str = ""
    is_for_kserve: bool = False
    prometheus: str = ""

    @property
    def name(self) -> str:
        """The name of the objects: the model's name as a DNS label."""
        return label_of(self.model)

    @property
    def base_image(self) -> str:
        """The base image of its image."""
        return self.base or f"python:{self.python}-slim"

    @property
    def archive(self) -> str:
        """The file that contains graph, units and models."""
        return f"{self.model}.mfz"

    @property
    def requirement(self) -> str:
        """The requirement of modelflow for pip.

        Raises:
            ConfigError: pip would read another requirement.
        """
        extras = ",".join(self.extras)
        text = f"modelflow-graph[{extras}]=={self.modelflow}"
        try:
            found = Requirement(text)
        except InvalidRequirement:
            found = None
        if found is None or found.marker or found.extras != {*self.extras}:
            raise ConfigError(
                f"{self.archive}: got the version {self.modelflow!r:.80} of modelflow and the "
                f"extras {extras!r:.80}; expected a version and extras that pip accepts, such as "
                "1.2.0 and serve. Pack the graph again"
            )
        return text

    @property
    def own_lock(self) -> str:
        """The lock file of modelflow for pip: from the wheel, by its hash."""
        text = self.requirement
        if self.wheel:
            text = f"./{self.wheel}[{','.join(self.extras)}] --hash=sha256:{self.wheel_hash}"
        return f"{text}\n"

    @property
    def process_seconds(self) -> int:
        """The longest time for the end of its process, in whole seconds."""
        return self.delay + self.drain + _LAST_SECONDS

    @property
    def scheme(self) -> str:
        """``https`` if the settings name a certificate, else ``http``."""
        return "https" if self.settings.get("MODELFLOW_SERVE_TLS_CERT") else "http"

    @property
    def processors(self) -> int:
        """The number of processors to request, equal to the configured processes."""
        workers = self._count("MODELFLOW_SERVE_WORKERS")
        return max(1, self._count("MODELFLOW_SERVE_REPLICAS"), workers and workers + 1)

    def _count(self, name: str) -> int:
        return int(self.settings.get(name) or 0)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables, without the addresses."""
        delay = {"MODELFLOW_SERVE_DRAIN_DELAY": str(self.delay)} if self.delay else {}
        drain = {"MODELFLOW_SERVE_DRAIN_TIMEOUT": str(self.drain)}
        return {**drain, **delay, **self.settings}

    def addresses(self, host: str) -> dict[str, str]:
        """Returns the addresses of the server as environment variables."""
        grpc = "off" if self.grpc_port is None else f"{host}:{self.grpc_port}"
        return {"MODELFLOW_SERVE_HTTP": f"{host}:{self.http_port}", "MODELFLOW_SERVE_GRPC": grpc}

    @property
    def ports(self) -> dict[str, int]:
        """The ports by protocol."""
        return {"http": self.http_port} | (
            {} if self.grpc_port is None else {"grpc": self.grpc_port}
        )


def label_of(name: str) -> str:
    """Returns a name as a DNS label: lower-case letters, digits and ``-``.

    Raises:
        ConfigError: no usable character remains.
    """
    label = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST].strip("-")
    if not label or not label[0].isalpha():
        raise ConfigError(
            f"{name}: objects cannot be named after it; expected a name that begins with a letter "
            "from a to z; give one: --name NAME"
        )
    return label


def needs_of(graph: "Graph") -> Needs:
    """Returns the needs of a graph: the number of its GPUs, and its largest batch."""
    devices = {device for node in graph.nodes.values() for device in node.devices}
    gpus = sum(device.kind == "cuda" for device in devices)
    batches = [node.settings.batch_size or 1 for node in graph.nodes.values()]
    return Needs(gpus, max(batches, default=1))
