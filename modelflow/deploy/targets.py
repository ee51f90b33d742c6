"""The targets of ``modelflow deploy``: their files and their next commands."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from modelflow.deploy.application import Application
from modelflow.deploy.compose import compose_file
from modelflow.deploy.custom_objects import make_scaled_object, make_serving_runtime
from modelflow.deploy.helm import chart
from modelflow.deploy.image import image_files
from modelflow.deploy.kubernetes import adapter_rules, defaults, objects
from modelflow.deploy.values import PlainValues, yaml_text

Files = Mapping[str, str]
"""Texts, by their paths in the folder."""


@dataclass(frozen=True)
class Target:
    """A way to deploy.

    Attributes:
        files: Makes the texts.
        next: The next commands to run in the folder, one on each line.
        is_replicated: Whether the target supports several replicas.
    """

    files: Callable[[Application], Files]
    next: Callable[[Application], str]
    is_replicated: bool = False


def _plain(application: Application) -> Files:
    values = PlainValues(application.name, defaults(application))
    found = {
        f"kubernetes/{file}": yaml_text(each)
        for file, each, flag in objects(application, values)
        if not flag or values.of(flag)
    }
    if application.prometheus:
        rows = values.of("autoscaling.queueRows")
        found["kubernetes/scaledobject.yaml"] = yaml_text(make_scaled_object(application, rows))
    if application.is_for_kserve:
        found["kserve/servingruntime.yaml"] = yaml_text(make_serving_runtime(application))
    return {**image_files(application), **found, **_monitoring()}


def _chart(application: Application) -> Files:
    found = {f"chart/{path}": text for path, text in chart(application).items()}
    return {**image_files(application), **found, **_monitoring()}


def _monitoring() -> Files:
    note = "Values for the chart of prometheus-adapter: the metric by which the pods are scaled."
    return {"monitoring/prometheus-adapter.yaml": yaml_text(adapter_rules(), note=note)}


def _build(application: Application) -> str:
    return f"docker build -t {application.image} ."


def _push(application: Application) -> str:
    """Returns the commands that make the image available to a cluster."""
    push = f"docker push {application.image}"
    if "/" in application.image:
        return push
    return (
        f"# {application.image} names no registry: give one first (--image REGISTRY/NAME:TAG) and\n"
        f"# push there, or load the image into the cluster's machines\n{push}"
    )


def _next_docker(application: Application) -> str:
    ports = " ".join(f"-p 127.0.0.1:{port}:{port}" for port in application.ports.values())
    gpus = " --gpus all" if application.needs.gpus else ""
    given = "".join(
        f" -e {shlex.quote(f'{name}={value}')}" for name, value in application.settings.items()
    )
    mounts = "".join(f' -v "$PWD/{name}:{path}:ro"' for name, path in application.mounts.items())
    return (
        f"{_build(application)}\n"
        f"docker run --read-only --tmpfs /tmp --cap-drop ALL{gpus} {ports}{mounts}{given} "
        f"{application.image}\n"
        f"docker stop -t {application.process_seconds} CONTAINER"
    )


def _next_kubernetes(application: Application) -> str:
    return (
        f"{_build(application)}\n{_push(application)}\n"
        "kubectl apply --dry-run=server -f kubernetes/\nkubectl apply -f kubernetes/\n"
        f"kubectl rollout status deployment/{application.name}"
    )


def _next_helm(application: Application) -> str:
    return (
        f"{_build(application)}\n{_push(application)}\n"
        f"helm upgrade --install {application.name} chart/"
    )


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "docker": Target(image_files, _next_docker),
        "compose": Target(
            lambda one: {**image_files(one), "compose.yaml": compose_file(one)},
            lambda _: "docker compose up --build --wait",
        ),
        "kubernetes": Target(_plain, _next_kubernetes, is_replicated=True),
        "helm": Target(_chart, _next_helm, is_replicated=True),
    }
)
"""The targets by their names on the command line."""
