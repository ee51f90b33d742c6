"""Makes a Helm chart whose templates are the objects of `kubernetes` with placeholders."""

import json
from typing import Any

from modelflow.deploy.application import Application
from modelflow.deploy.kubernetes import defaults, objects
from modelflow.deploy.values import HelmValues, yaml_text

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
_ANY: dict[str, Any] = {"type": "object"}


def chart(application: Application) -> dict[str, str]:
    """Returns the files of a chart, by their relative paths."""
    about = {
        "apiVersion": "v2",
        "name": application.name,
        "description": f"Serves {application.model} with modelflow",
        "type": "application",
        "version": "0.1.0",
        "appVersion": application.modelflow,
        "kubeVersion": ">=1.25.0-0",
    }
    files = {
        "Chart.yaml": yaml_text(about),
        "values.yaml": yaml_text(defaults(application)),
        "values.schema.json": json.dumps(_schema(), indent=2) + "\n",
    }
    for file, found, flag in objects(application, HelmValues()):
        condition = f".Values.{flag}" if flag else ""
        files[f"templates/{file}"] = yaml_text(found, condition=condition)
    return files


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def _schema() -> dict[str, Any]:
    """Returns the schema of the values, which makes a misspelt key an error."""
    settings = {
        "type": "object",
        "required": ["MODELFLOW_SERVE_DRAIN_TIMEOUT"],
        "properties": {"MODELFLOW_SERVE_DRAIN_TIMEOUT": {**_TEXT, "pattern": "^[0-9]+$"}},
        "additionalProperties": _TEXT,
    }
    scaling = _object(enabled=_FLAG, minReplicas=_COUNT, maxReplicas=_COUNT, queueRows=_COUNT)
    most_away = {"anyOf": [_COUNT, {**_TEXT, "pattern": "^[0-9]+%$"}]}
    policy = _object(enabled=_FLAG, **{"from": {"type": "array", "items": _ANY}})
    schema = _object(
        image={**_TEXT, "minLength": 1},
        imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        settings=settings,
        resources=_ANY,
        replicas={"type": "integer", "minimum": 0},
        autoscaling=scaling,
        tmpSize={**_TEXT, "pattern": "^[0-9.]+([KMGT]i?|m|k)?$"},
        startup=_object(periodSeconds=_COUNT, failureThreshold=_COUNT),
        disruption=_object(enabled=_FLAG, maxUnavailable=most_away),
        networkPolicy=policy,
        nodeSelector={**_ANY, "additionalProperties": _TEXT},
        tolerations={"type": "array", "items": _ANY},
        affinity=_ANY,
    )
    schema["properties"]["global"] = _ANY  # set by Helm for charts that include this chart
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
