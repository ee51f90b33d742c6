"""The command ``modelflow deploy``: writes the files to put a graph into service."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.parameters import Choice, declare_repeated
from modelflow.cli.release.deploy_values import (
    PORTS,
    base_of,
    grpc_port_of,
    mounts_of,
    prometheus_of,
    replicas_of,
    wheel_of,
)
from modelflow.cli.release.pack import lock_option, pack_graph
from modelflow.cli.terminal.messages import tell
from modelflow.config.override import ARG, SET
from modelflow.errors import ConfigError
from modelflow.files.whole_folder import whole_folder
from modelflow.signals import ExitCode, end_on_sigterm

if TYPE_CHECKING:
    from modelflow.archive.manifest import Manifest
    from modelflow.deploy.application import Application
    from modelflow.deploy.targets import Target


# The same as in `modelflow.deploy.targets`, whose import takes time.
TARGET_NAMES = ("docker", "compose", "kubernetes", "helm")
# Targets without files of their own; a page has files to copy.
_PAGES = {
    "kuberay": "docs/how-to/deploy_on_a_ray_cluster.md",
    "systemd": "docs/how-to/deploy_with_systemd.md",
}

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._/:-]{0,250}")


class _TargetChoice(Choice):
    """The name of a target; for a target without files the error names its page."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if page := _PAGES.get(value):
            message = (
                f"got {value!r}; modelflow writes no files for it; expected "
                f"{', '.join(TARGET_NAMES)}; {page} has complete files to copy"
            )
            self.fail(message, param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("target", type=_TargetChoice(TARGET_NAMES), metavar="TARGET")
@graph_options
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder to write; new or empty.",
)
@click.option("--force", is_flag=True, help="Replace existing files in the folder.")
@click.option("--name", help="The model's name for clients. Default: as in modelflow serve.")
@click.option("--image", help="The image's name and tag. Default: NAME, and a hash of the archive.")
@click.option(
    "--http-port",
    type=click.IntRange(PORTS.start, PORTS.stop - 1),
    default=8501,
    help="The port for HTTP.",
)
@click.option("--grpc-port", default="8500", metavar="PORT|off", help="The port for gRPC.")
@click.option(
    "--drain-timeout",
    type=click.IntRange(0, 86_400),
    default=30,
    help="Seconds until requests in flight must be answered at the end; more than the longest "
    "request takes. The time until the server is killed is computed from this.",
)
@click.option(
    "--drain-delay",
    type=click.IntRange(0, 86_400),
    default=0,
    help="Seconds for which the server still answers after SIGTERM while it reports not ready. "
    "Use this with a load balancer of your own. (Pods are removed from their Service before "
    "SIGTERM.)",
)
@click.option(
    "--replicas",
    default="1..4",
    metavar="N|MIN..MAX",
    help="Number of pods, or minimum and maximum, for kubernetes and helm.",
)
@click.option(
    "--base-image",
    "base",
    metavar="NAME@sha256:DIGEST",
    help="The base image with Python, pinned by its digest. Default: the slim image of Python, by "
    "its tag, which moves.",
)
@click.option(
    "--kserve",
    "is_for_kserve",
    is_flag=True,
    help="For kubernetes: also write a ServingRuntime of KServe.",
)
@click.option(
    "--keda",
    "prometheus",
    metavar="URL",
    help="For kubernetes: scale the pods with a ScaledObject of KEDA, by the Prometheus at this "
    "URL, in place of the HorizontalPodAutoscaler.",
)
@declare_repeated(
    "--env",
    "variables",
    "NAME=VALUE",
    "An environment variable of the server, such as "
    "MODELFLOW_SERVE_MAX_REQUESTS=64 or MODELFLOW_SET='NODE.KEY=VALUE'. May be repeated.",
)
@declare_repeated(
    "--mount",
    "mounts",
    "NAME=/FOLDER",
    "Mount files that are not in the image, such as certificates and keys, read-only at /FOLDER. "
    "For Kubernetes NAME is a Secret. For docker and compose NAME is a folder next to the other "
    "files. May be repeated.",
)
@declare_repeated(
    "--include",
    "includes",
    "GLOB",
    "More files that a unit reads, as in modelflow pack. May be repeated.",
)
@lock_option
@click.option(
    "--wheel",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="The wheel of modelflow to install, checked by its hash. Default: a wheel made of the "
    "running modelflow. The wheel is copied into the folder.",
)
def deploy(target: str, graph: GraphChoice, folder: Path, force: bool, **given: Any) -> int:
    """Writes a folder to deploy GRAPH: an archive of the graph (see modelflow pack) and the files
    for TARGET.

    \b
    docker      an image
    compose     an image, and a container for Docker Compose
    kubernetes  an image, and objects that scale with the length of the graph's queues
    helm        the same as a chart

    \b
    modelflow deploy docker graph.toml -o image
    modelflow deploy kubernetes graph.toml -o site --replicas 2..8 --image registry/digits:1
    """
    from modelflow.cli.release.deploy_environment import variables_of
    from modelflow.deploy.targets import TARGETS

    made = TARGETS[target]
    given["variables"] = variables_of(given["variables"])
    given["mounts"] = mounts_of(given["mounts"])
    given["base"], given["prometheus"] = base_of(given["base"]), prometheus_of(given["prometheus"])
    for flag, key in (("--kserve", "is_for_kserve"), ("--keda", "prometheus")):
        if given[key] and target != "kubernetes":
            raise click.UsageError(f"{flag}: got the target {target}; expected kubernetes")
    source = click.get_current_context().get_parameter_source("replicas")
    if not made.is_replicated and source is not ParameterSource.DEFAULT:
        tell("note", f"--replicas does nothing for {target}: it is one server")
    try:
        with end_on_sigterm(), whole_folder(folder, is_forced=force) as draft:
            application = _write(made, graph, draft, given)
            written = sorted(path.relative_to(draft) for path in draft.rglob("*") if path.is_file())
    except FileExistsError as error:
        raise ConfigError(
            f"-o {folder}: {error.args[0]} is there already; expected a new or empty folder; "
            "nothing was written; --force replaces files of the same names, and leaves others"
        ) from error
    except OSError as error:
        raise ConfigError(f"-o {folder}: cannot be written: {error.strerror or error}") from error
    for name in written:
        click.echo(folder / name)
    click.echo(f"\nnext:\n\n  cd {shlex.quote(str(folder))}", err=True)
    for line in made.next(application).splitlines():
        click.echo(f"  {line}", err=True)
    takes = ", ".join(application.inputs) or "nothing"
    path = f"{application.scheme}://HOST:{application.http_port}/v2/models/{application.model}"
    click.echo(f"\ninputs: {takes}; metadata of the model: {path}", err=True)
    return ExitCode.OK


def _write(
    target: "Target", graph: GraphChoice, draft: Path, given: dict[str, Any]
) -> "Application":
    from modelflow.archive.archive import Archive
    from modelflow.archive.manifest import LOCK
    from modelflow.serve.repository.config import choose_name

    model = given["name"] or choose_name(graph.path)
    if not _NAME.fullmatch(model):
        raise ConfigError(
            f"--name: got {model!r}; expected a letter, then letters, digits, '_', '.' and '-', 63 "
            "at most; give one: --name NAME"
        )
    archive = draft / f"{model}.mfz"
    manifest = _pack(graph, archive, given)
    with Archive(archive) as opened:
        lock = b"".join(opened.chunks(LOCK))
    given["wheel"] = _put_wheel(draft, given["wheel"], manifest.modelflow)
    application = _application(graph, model, manifest, given)
    (draft / LOCK).write_bytes(lock)
    for path, text in target.files(application).items():
        (draft / path).parent.mkdir(parents=True, exist_ok=True)
        (draft / path).write_text(text, encoding="utf-8")
    return application


def _pack(graph: GraphChoice, archive: Path, given: dict[str, Any]) -> "Manifest":
    """Packs the graph, or copies an archive, which reading the graph verifies later."""
    from modelflow.archive.suffix import is_archive_file

    if is_archive_file(graph.path):
        return _copy(graph, archive, given)
    notes: list[str] = []
    manifest = pack_graph(graph, archive, given, _extras(given), notes)
    for note in notes:
        tell("note", note)
    return manifest


def _copy(graph: GraphChoice, archive: Path, given: dict[str, Any]) -> "Manifest":
    from modelflow.archive.archive import Archive

    if graph.overrides or graph.args or given["includes"] or given["lock"]:
        raise ConfigError(
            f"{graph.path}: is an archive, which is deployed as it is; give --set, --arg, "
            "--include and --lock to modelflow pack"
        )
    if graph.environment.overrides or graph.environment.args:
        name = SET if graph.environment.overrides else ARG
        raise ConfigError(
            f"{name}: is set in the environment, but the archive {graph.path} is deployed without "
            f"changes; unset it, or set it in the deployment: --env {name}=VALUE"
        )
    shutil.copyfile(graph.path, archive)
    with Archive(archive) as opened:
        manifest = opened.manifest
    extras = _extras(given)
    missing = [extra for extra in extras if extra not in manifest.extras]
    if missing:
        wanted = " ".join(f"--extra {extra}" for extra in extras)
        raise ConfigError(
            f"{graph.path}: its requirements.lock was made without the extra {missing[0]!r}; pack "
            f"the graph again: modelflow pack {wanted}"
        )
    return manifest


def _extras(given: dict[str, Any]) -> tuple[str, ...]:
    from modelflow.cli.release.deploy_environment import extras_of

    return tuple(dict.fromkeys(("serve", *extras_of(given["variables"]))))


def _application(
    graph: GraphChoice, model: str, manifest: "Manifest", given: dict[str, Any]
) -> "Application":
    import hashlib

    from modelflow.cli.release.deploy_environment import apply_variables, check_placing
    from modelflow.deploy.application import Application, label_of, needs_of

    variables = given["variables"]
    checked = apply_variables(graph, variables).read(check_devices=False)
    check_placing(variables, checked)
    tag = hashlib.sha256(manifest.to_bytes()).hexdigest()[:12]  # each archive gets its own image
    image = given["image"] or f"{label_of(model)}:{tag}"
    if not _IMAGE.fullmatch(image):
        raise ConfigError(
            f"--image: got {image!r}; expected a name and a tag, as in registry/digits:1"
        )
    wheel, wheel_hash = wheel_of(given["wheel"], manifest.modelflow)
    return Application(
        model=model,
        modelflow=manifest.modelflow,
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        extras=manifest.extras,
        needs=needs_of(checked),
        inputs=tuple(port["name"] for port in manifest.inputs),
        image=image,
        http_port=given["http_port"],
        grpc_port=grpc_port_of(given["grpc_port"], given["http_port"]),
        drain=given["drain_timeout"],
        delay=given["drain_delay"],
        replicas=replicas_of(given["replicas"]),
        settings=variables,
        mounts=given["mounts"],
        wheel=wheel,
        wheel_hash=wheel_hash,
        base=given["base"],
        is_for_kserve=given["is_for_kserve"],
        prometheus=given["prometheus"],
    )


def _put_wheel(draft: Path, given: Path | None, version: str) -> Path | None:
    """Copies modelflow's wheel into the folder; returns its path, or None with a note."""
    from modelflow import __version__
    from modelflow.deploy.wheel import pack_wheel

    if given is not None:
        shutil.copyfile(given, draft / given.name)
        return draft / given.name
    found = pack_wheel(draft) if version == __version__ else None
    if found is None:
        click.echo(
            "note: no wheel of modelflow (a clone, or not the archive's version): pip "
            "installs it from your index; give --wheel FILE (pip wheel --no-deps CLONE)",
            err=True,
        )
    return found
