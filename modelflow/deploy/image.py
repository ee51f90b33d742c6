"""Makes the files from which an image is built, and fills texts with placeholders."""

import json
import shlex
import string
from importlib.resources import files

from modelflow.deploy.application import USER, Application


class _Text(string.Template):
    """A text with ``@name`` placeholders; ``@@`` is an ``@``."""

    delimiter = "@"


def fill(name: str, /, **values: object) -> str:
    """Returns a text of ``texts/`` with a value for each placeholder.

    Raises:
        KeyError: a placeholder has no value.
    """
    text = (files("modelflow.deploy") / "texts" / name).read_text(encoding="utf-8")
    return _Text(text).substitute(values)


OWN_LOCK = "modelflow.lock"
"""The file with the requirement of modelflow."""

_GPU_HINT = """
# The graph runs on a GPU: use a BASE with CUDA's libraries unless your packages contain them, as
# PyTorch's do. Start the container with a GPU: docker run --gpus all."""


def image_files(application: Application) -> dict[str, str]:
    """Returns the files for building an image, without the archive and its lock file."""
    wheel = application.wheel
    dockerfile = fill(
        "Dockerfile",
        model=application.model,
        image=application.image,
        python=application.python,
        base=application.base_image,
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
    """Returns the command for inside a container that fails until everything is loaded."""
    how = "HTTPConnection", ""
    if application.scheme == "https":  # not verified, because it connects to its own machine
        how = "HTTPSConnection", ", context=__import__('ssl')._create_unverified_context()"
    program = (
        "import http.client as h, sys; "
        f"c = h.{how[0]}('127.0.0.1', {application.http_port}, timeout=4{how[1]}); "
        "c.request('GET', '/v2/health/ready'); sys.exit(c.getresponse().status != 200)"
    )
    return ["python", "-c", program]
