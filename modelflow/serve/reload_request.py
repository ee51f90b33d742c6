"""What TensorFlow Serving's ``ReloadConfigRequest`` asks for."""

from pathlib import Path

from modelflow.errors import ConfigError
from modelflow.serve.model_config import sources_of
from modelflow.serve.source import Source
from modelflow.wire.problem import Problem, shown
from modelflow.wire.tf_serving.messages import TF_SERVING

__all__ = ["sources_of_reload"]

_REQUEST = "tensorflow.serving.ReloadConfigRequest"


def sources_of_reload(config: bytes) -> list[Source]:
    """Returns what is to be served, of a serialized ``ReloadConfigRequest``.

    Raises:
        Problem: it says nothing, or what is not right.
    """
    message = TF_SERVING[_REQUEST].FromString(config).config
    if message.WhichOneof("config") is None:
        text = "ReloadConfigRequest: no config; expected model_config_list"
        raise Problem(text)
    for model in message.model_config_list.config:
        if not Path(model.base_path.removeprefix("file://")).is_absolute():
            path = shown(model.base_path)
            text = f"model {shown(model.name)}: base_path {path}; expected an absolute path"
            raise Problem(text)
    try:
        return list(sources_of(message, "ReloadConfigRequest", Path("/")))
    except ConfigError as error:
        raise Problem(str(error)) from error
