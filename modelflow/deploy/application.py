"""`Application`: what is known of a graph that is to be deployed."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelflow.graph.graph import Graph

USER = 10001
"""Who runs in the image: nobody that the base knows."""

# Seconds that a server may take beyond its drain timeout, and one more: what hangs is given up.
_LAST_SECONDS = 3
LEAVING_SECONDS = 5
"""For how long a pod goes on as before it is told to end: until then requests still come."""
# A label of DNS, short enough for what Helm and Kubernetes add.
_LONGEST = 50


class Needs(NamedTuple):
    """What a graph asks of the machine that it runs on."""

    gpus: int
    """How many GPUs; 0: none."""
    batch: int
    """The rows of the largest batch that a node is given."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """A graph that is to be deployed, and how.

    Attributes:
        model: What clients call it.
        modelflow: The version of modelflow that it is served with.
        python: The version of Python: ``3.11``.
        extras: Those of modelflow that are installed with it.
        needs: What it asks of the machine.
        inputs: The names of the graph's inputs.
        image: The name of its image, with a tag.
        http_port: Where it answers over HTTP.
        grpc_port: Where it answers over gRPC; None: it does not.
        drain: Seconds within which requests under way are answered at the end.
        delay: Seconds for which it goes on answering before that, while it is not ready.
        replicas: The least and the most of them.
        wheel: The file of modelflow's own wheel beside it; "": pip takes it from an index, by name.
        wheel_hash: The SHA-256 of that file, in hexadecimal.
        settings: Variables of the environment that it is started with. Not in the image, which more
            may have than whoever starts it.
        mounts: Folders of files that are not in the image, as keys and certificates: by the name
            of the Secret, or of the folder beside the other files, where they are in the container.
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

    @property
    def name(self) -> str:
        """What its objects are called: the model's name as a label of DNS."""
        return label_of(self.model)

    @property
    def archive(self) -> str:
        """The file that holds graph, units and models."""
        return f"{self.model}.mfz"

    @property
    def requirement(self) -> str:
        """What of modelflow is installed, as pip reads it.

        Raises:
            ConfigError: pip would read something else.
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
                f"extras {extras!r:.80}; expected what pip reads, as in 1.2.0 and serve; pack the "
                "graph again"
            )
        return text

    @property
    def own_lock(self) -> str:
        """What of modelflow is installed, as a file for pip: from the wheel, by its hash."""
        text = self.requirement
        if self.wheel:
            text = f"./{self.wheel}[{','.join(self.extras)}] --hash=sha256:{self.wheel_hash}"
        return f"{text}\n"

    @property
    def process_seconds(self) -> int:
        """How long the end of its process may take, in whole seconds."""
        return self.delay + self.drain + _LAST_SECONDS

    @property
    def scheme(self) -> str:
        """``https`` where it is told of a certificate, else ``http``."""
        return "https" if self.settings.get("MODELFLOW_SERVE_TLS_CERT") else "http"

    @property
    def processors(self) -> int:
        """How many it asks for: one a process that it is told to have."""
        workers = self._count("MODELFLOW_SERVE_WORKERS")
        return max(1, self._count("MODELFLOW_SERVE_REPLICAS"), workers and workers + 1)

    def _count(self, name: str) -> int:
        return int(self.settings.get(name) or 0)

    @property
    def environment(self) -> dict[str, str]:
        """What it is told by the environment, beside where to listen."""
        delay = {"MODELFLOW_SERVE_DRAIN_DELAY": str(self.delay)} if self.delay else {}
        drain = {"MODELFLOW_SERVE_DRAIN_TIMEOUT": str(self.drain)}
        return {**drain, **delay, **self.settings}

    def addresses(self, host: str) -> dict[str, str]:
        """Returns where it listens, as the environment says it."""
        grpc = "off" if self.grpc_port is None else f"{host}:{self.grpc_port}"
        return {"MODELFLOW_SERVE_HTTP": f"{host}:{self.http_port}", "MODELFLOW_SERVE_GRPC": grpc}

    @property
    def ports(self) -> dict[str, int]:
        """Where it answers, by protocol."""
        return {"http": self.http_port} | (
            {} if self.grpc_port is None else {"grpc": self.grpc_port}
        )


def label_of(name: str) -> str:
    """Returns a name as a label of DNS: lower-case letters, digits and ``-``.

    Raises:
        ConfigError: nothing is left of it.
    """
    label = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST].strip("-")
    if not label or not label[0].isalpha():
        raise ConfigError(
            f"{name}: objects cannot be named after it; expected a name that begins with a letter "
            "from a to z; give one: --name NAME"
        )
    return label


def needs_of(graph: "Graph") -> Needs:
    """Returns what a graph asks of the machine: every GPU that a node names, its largest batch."""
    devices = {device for node in graph.nodes.values() for device in node.devices}
    gpus = sum(device.kind == "cuda" for device in devices)
    batches = [node.settings.batch_size or 1 for node in graph.nodes.values()]
    return Needs(gpus, max(batches, default=1))
