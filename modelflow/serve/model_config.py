"""``models.config``: which models a TensorFlow Serving has been told to serve."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modelflow.errors import ConfigError
from modelflow.serve.source import Source, Terms
from modelflow.serve.version_policy import LATEST, VersionPolicy
from modelflow.wire.problem import Problem
from modelflow.wire.tf_serving.messages import TF_SERVING

__all__ = ["read_model_config", "sources_of"]

_MESSAGE = "tensorflow.serving.ModelServerConfig"


def read_model_config(path: Path) -> list[Source]:
    """Returns the models that a ``models.config`` names, with their versions and labels.

    Args:
        path: The file, a ``ModelServerConfig`` in protobuf's text form. A ``base_path`` that is not
            absolute counts from its folder.

    Raises:
        ConfigError: it cannot be read, or is wrong.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: cannot be read ({error}); expected a models.config"
        raise ConfigError(message) from error
    try:
        config = TF_SERVING.parse_text(_MESSAGE, text, str(path))
    except Problem as problem:
        raise ConfigError(str(problem)) from problem
    return [*sources_of(config, str(path), path.parent)]


def sources_of(config: Any, where: str, folder: Path) -> Iterator[Source]:
    """Gives the models of a ``ModelServerConfig``.

    Args:
        config: The message.
        where: Where it comes from, for messages.
        folder: What a ``base_path`` that is not absolute counts from.

    Raises:
        ConfigError: a model has no name or no path, or the config is of a kind of its own.
    """
    if config.WhichOneof("config") == "custom_model_config":
        message = f"{where}: custom_model_config; expected model_config_list"
        raise ConfigError(message)
    for place, model in enumerate(config.model_config_list.config):
        for key in ("name", "base_path"):
            if not getattr(model, key):
                message = f"{where}: config {place} ({model.name or model.base_path}) has no {key}"
                raise ConfigError(message)
        path = folder / model.base_path.removeprefix("file://")
        terms = Terms(_policy(model), dict(model.version_labels))
        yield Source(model.name, path, terms)


def _policy(model: Any) -> VersionPolicy:
    policy = model.model_version_policy
    match policy.WhichOneof("policy_choice"):
        case "all":
            return VersionPolicy(latest=0)
        case "specific":
            return VersionPolicy(specific=tuple(policy.specific.versions))
        case "latest":
            return VersionPolicy(latest=policy.latest.num_versions or 1)
        case _:
            return LATEST
