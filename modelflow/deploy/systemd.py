"""A unit of systemd."""

from modelflow.deploy.application import Application
from modelflow.deploy.text import filled

__all__ = ["service_unit"]


def service_unit(application: Application) -> str:
    """Returns the unit: a process that says how it is, and may do no more than it needs to."""
    environment = {**application.addresses("127.0.0.1"), **application.environment}
    return filled(
        "service",
        name=application.name,
        model=application.model,
        archive=application.archive,
        python=application.python,
        environment="\n".join(
            f"Environment={_quoted(key, value)}" for key, value in environment.items()
        ),
        process=application.graces.process,
        devices="PrivateDevices=no" if application.needs.gpus else "PrivateDevices=yes",
    )


def _quoted(key: str, value: str) -> str:
    """An assignment as systemd reads it: its quotes, its escapes, its specifiers."""
    text = f"{key}={value}".replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"'
