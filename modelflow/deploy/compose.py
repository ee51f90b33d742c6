"""Makes the file for Docker Compose."""

from modelflow.deploy.application import Application
from modelflow.deploy.image import health_check
from modelflow.deploy.values import ABSENT, yaml_text

_NOTE = """Other machines cannot reach the server, because its ports are published at 127.0.0.1.
To change this, use keys and TLS as well (--api-key-file, --tls-cert; deploy --mount)."""


def compose_file(application: Application) -> str:
    """Returns ``compose.yaml`` with one container that has only the necessary rights."""
    gpus = {"driver": "nvidia", "count": application.needs.gpus, "capabilities": ["gpu"]}
    reserved = {"resources": {"reservations": {"devices": [gpus]}}}
    service = {
        "build": ".",
        "image": application.image,
        # Compose replaces $NAME by its own variables, therefore $ is doubled.
        "environment": {
            key: value.replace("$", "$$") for key, value in application.environment.items()
        },
        "ports": [f"127.0.0.1:{port}:{port}" for port in application.ports.values()],
        "healthcheck": {
            "test": ["CMD", *health_check(application)],
            "interval": "5s",
            "timeout": "5s",
            "start_period": "600s",
            "retries": 2,
        },
        "stop_signal": "SIGTERM",
        "stop_grace_period": f"{application.process_seconds}s",
        "restart": "unless-stopped",
        "read_only": True,
        "tmpfs": ["/tmp"],
        "volumes": [f"./{name}:{path}:ro" for name, path in application.mounts.items()] or ABSENT,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "deploy": reserved if application.needs.gpus else ABSENT,
    }
    return yaml_text({"services": {application.name: service}}, note=_NOTE)
