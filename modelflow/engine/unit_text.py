"""The unit file of a model, as text: what a folder needs to hold beside it."""

import os
import re
from pathlib import Path

import tomlkit

from modelflow.engine.model_file import ModelFile

__all__ = ["unit_text"]


def unit_text(file: ModelFile, target: Path | None = None, device: str = "cpu") -> str:
    """Returns the TOML of an inference unit that runs ``file``.

    Args:
        file: The model with its ports.
        target: The file that the text is for; the unit has its name. None: one beside the model,
            with the model's name.
        device: The device that the unit is for.
    """
    path = file.path.resolve()
    target = target or path
    entry = os.path.relpath(path, target.parent.resolve())
    document = tomlkit.document()
    document["base"] = {
        "name": _unit_name(target),
        "device": device,
        "version": "1.0.0",
        "description": f"Runs {path.name}.",
        "entry": entry,
        "type": "inference",
        "virtual_type": file.engine,
    }
    if file.config:
        document["config"] = dict(file.config)
    for what, ports in (("input", file.inputs), ("output", file.outputs)):
        table = tomlkit.table(is_super_table=True)
        for number, port in enumerate(ports, 1):
            entry_table = tomlkit.table()
            entry_table["name"] = port.name
            entry_table["type"] = port.dtype or "float32"
            table[f"{what}{number}"] = entry_table
        document[what] = table
    return tomlkit.dumps(document)


def _unit_name(path: Path) -> str:
    """Returns the name of a file in letters that graphs take: ``my_net`` of ``my net.onnx``."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)
    return name if re.match(r"[A-Za-z_]", name) else f"model_{name}"
