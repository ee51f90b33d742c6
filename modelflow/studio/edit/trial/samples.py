"""The samples of a run, converted from a page's JSON values to buffers. Pure."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError, did_you_mean

MOST_SAMPLES = 1000
"""The most samples of an input."""

Row = Mapping[str, Buffer]


def rows_of(given: Mapping[str, Any], inputs: Sequence[str]) -> list[Row]:
    """Returns the rows to send, each with a buffer for every input.

    Args:
        given: For each input a list of samples: ``{"text": ...}``, ``{"json": TEXT}``, or the bytes
            of a file as ``{"base64": ..., "name": FILE}``.
        inputs: The inputs of the graph.

    Raises:
        ConfigError: An input has no sample, a sample is malformed, or the inputs differ in number
            of samples.
    """
    for name in given:
        if name not in inputs:
            near = did_you_mean(name, inputs)
            raise ConfigError(
                f"the graph has no input {name!r}{near} (inputs: {', '.join(inputs)})"
            )
    columns = {name: _column(name, given.get(name)) for name in inputs}
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise ConfigError(f"the inputs have different numbers of samples ({found})")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(name: str, given: Any) -> list[Buffer]:
    if not isinstance(given, list) or not given:
        raise ConfigError(f"input {name!r} has no sample: choose a file, or type a text")
    if len(given) > MOST_SAMPLES:
        raise ConfigError(
            f"input {name!r}: got {len(given)} samples; expected at most {MOST_SAMPLES}"
        )
    return [_buffer(name, sample) for sample in given]


def _buffer(name: str, sample: Any) -> Buffer:
    match sample:
        case {"base64": str(text), "name": str(file)}:
            try:
                return Buffer(base64.b64decode(text, validate=True), {"path": file})
            except binascii.Error as error:
                raise ConfigError(
                    f"input {name!r}: {file} did not arrive whole: {error}"
                ) from error
        case {"text": str(text)}:
            return Buffer(text)
        case {"json": str(text)}:
            try:
                return Buffer(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"input {name!r}: {text[:60]!r} is no JSON: {error}") from error
    raise ConfigError(
        f"input {name!r}: got {str(sample)[:60]}; expected text, json, or base64 and name"
    )
