"""What an image of an application is built from, and texts with placeholders."""

import json
import shlex
import string
from importlib.resources import files

from modelflow.deploy.application import USER, Application


class _Text(string.Template):
    """A text with ``@name`` where something is put in; ``@@`` is an ``@``."""

    delimiter = "@"


def fill(name: str, /, **values: object) -> str:
    """Returns a text of ``texts/``, with a value for each of its names.

    Raises:
        KeyError: it has a name without a value.
    """
    text = (files("modelflow.deploy") / "texts" / name).read_text(encoding="utf-8")
    return _Text(text).substitute(values)


OWN_LOCK = "modelflow.lock"
"""The file that says what of modelflow is installed."""

_GPU_HINT = """
# Its nodes run on a GPU: give a BASE with CUDA's libraries where your packages bring none of their
# own (PyTorch's do), and start it with one: docker run --gpus all."""


def image_files(application: Application) -> dict[str, str]:
    """Returns the files that an image is built from, beside the archive and its lock file."""
    wheel = application.wheel
    dockerfile = fill(
        "Dockerfile",
        model=application.model,
        image=application.image,
        python=application.python,
        gpu_hint=_GPU_HINT if application.needs.gpus else "",
        requirement=shlex.quote(application.requirement),
        archive=application.archive,
        wheel=f"{wheel} " if wheel else "",
        http=application.addresses("0.0.0.0")["MODELFLOW_SERVE_HTTP"],
        grpc=application.addresses("0.0.0.0")["MODELFLOW_SERVE_GRPC"],
        delay=application.delay,
        drain=application.drain,
        process=application.process_seconds,
        user=USER,
        ports=" ".join(map(str, application.ports.values())),
        health=json.dumps(health_check(application)),
    )
    kept = f"\n!{wheel}" if wheel else ""
    return {
        "Dockerfile": dockerfile,
        ".dockerignore": fill("dockerignore", archive=application.archive, wheel=kept),
        OWN_LOCK: application.own_lock,
    }


def health_check(application: Application) -> list[str]:
    """Returns the command that fails unless everything is loaded, inside a container."""
    how = "HTTPConnection", ""
    if application.scheme == "https":  # of this machine: whose certificate it is does not matter
        how = "HTTPSConnection", ", context=__import__('ssl')._create_unverified_context()"
    program = (
        "import http.client as h, sys; "
        f"c = h.{how[0]}('127.0.0.1', {application.http_port}, timeout=4{how[1]}); "
        "c.request('GET', '/v2/health/ready'); sys.exit(c.getresponse().status != 200)"
    )
    return ["python", "-c", program]
