"""What each target of ``modelflow deploy`` is made of, and what to do with it."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from modelflow.deploy.application import Application
from modelflow.deploy.compose import compose_file
from modelflow.deploy.helm import chart
from modelflow.deploy.image import OWN_LOCK, image_files
from modelflow.deploy.kuberay import kuberay_note, kuberay_objects
from modelflow.deploy.kubernetes import adapter_rules, defaults, objects
from modelflow.deploy.systemd import service_unit
from modelflow.deploy.values import PlainValues
from modelflow.deploy.yaml_text import yaml_text

__all__ = ["TARGETS", "Target"]

Files = Mapping[str, str]
"""Texts, by their paths in the folder."""


@dataclass(frozen=True)
class Target:
    """A way to deploy.

    Attributes:
        files: Makes its texts.
        next: The commands to give next, in the folder, one on each line.
        extras: Those of modelflow that it needs, beside what the graph does.
        is_replicated: There may be several of it.
        is_served: Clients reach it over the network.
        has_mounts: Files that are not in the image can be put into it.
    """

    files: Callable[[Application], Files]
    next: Callable[[Application], str]
    extras: tuple[str, ...] = ("serve",)
    is_replicated: bool = False
    is_served: bool = True
    has_mounts: bool = True


def _plain(application: Application) -> Files:
    values = PlainValues(application.name, defaults(application))
    found = {
        f"kubernetes/{file}": yaml_text(each)
        for file, each, flag in objects(application, values)
        if not flag or values.of(flag)
    }
    return {**image_files(application), **found, **_monitoring()}


def _chart(application: Application) -> Files:
    found = {f"chart/{path}": text for path, text in chart(application).items()}
    return {**image_files(application), **found, **_monitoring()}


def _monitoring() -> Files:
    note = "Values for the chart of prometheus-adapter: what the pods are scaled by."
    return {"monitoring/prometheus-adapter.yaml": yaml_text(adapter_rules(), note=note)}


def _compose(application: Application) -> Files:
    return {**image_files(application), "compose.yaml": compose_file(application)}


def _kuberay(application: Application) -> Files:
    found = {
        f"kuberay/{file}": yaml_text(each, note=kuberay_note(file))
        for file, each, _ in kuberay_objects(application)
    }
    return {**image_files(application), **found}


def _systemd(application: Application) -> Files:
    unit = f"{application.name}.service"
    return {unit: service_unit(application), OWN_LOCK: application.own_lock}


def _build(application: Application) -> str:
    return f"docker build -t {application.image} ."


def _push(application: Application) -> str:
    """The image brought to where a cluster finds it."""
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
        f"docker stop -t {application.graces.process} CONTAINER"
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


def _next_kuberay(application: Application) -> str:
    return (
        f"{_build(application)}\n{_push(application)}\n"
        "kubectl apply --dry-run=server -f kuberay/\n"
        "kubectl apply -f kuberay/cluster.yaml\n"
        "kubectl create -f kuberay/run.yaml  # for each job, when its paths are yours"
    )


def _next_systemd(application: Application) -> str:
    unit, home = f"{application.name}.service", f"/opt/{application.name}"
    return (
        f"python{application.python} -m venv {home}/venv\n"
        f"{home}/venv/bin/pip install --no-deps -r requirements.lock\n"
        f"{home}/venv/bin/pip install --no-deps -r {OWN_LOCK}\n"
        f"install -m 644 {application.archive} {home}/\n"
        f"systemd-analyze verify {unit}\ninstall -m 644 {unit} /etc/systemd/system/\n"
        f"systemctl daemon-reload\nsystemctl enable --now {unit}"
    )


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "docker": Target(image_files, _next_docker),
        "compose": Target(_compose, lambda _: "docker compose up --build --wait"),
        "kubernetes": Target(_plain, _next_kubernetes, is_replicated=True),
        "helm": Target(_chart, _next_helm, is_replicated=True),
        "kuberay": Target(
            _kuberay, _next_kuberay, ("serve", "ray"), is_replicated=True, is_served=False
        ),
        "systemd": Target(_systemd, _next_systemd, has_mounts=False),
    }
)
"""By the name that the command line has for it."""
