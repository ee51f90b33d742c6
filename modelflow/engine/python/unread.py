"""Names the kinds of files that no engine reads, and the command that writes a class for them."""

import keyword
import re
from pathlib import Path

from modelflow.starters.template import is_module

# Ending, beginning of the file -> the kind, and the template of ``modelflow new model --for``.
_KINDS = (
    (".joblib", b"", "a file of joblib, as scikit-learn has them", "sklearn"),
    (".pkl", b"", "a Python pickle", "sklearn"),
    (".pickle", b"", "a Python pickle", "sklearn"),
    (".ubj", b"", "a model of XGBoost", "xgboost"),
    (".json", b'{"learner"', "a model of XGBoost", "xgboost"),
    (".txt", b"tree\n", "a model of LightGBM", "python"),
    (".safetensors", b"", "weights without their network (safetensors)", "safetensors"),
    (".gguf", b"", "a model of llama.cpp", "python"),
    (".npy", b"", "an array of NumPy", "python"),
    (".npz", b"", "arrays of NumPy", "python"),
)
# The end of a class's name in config.json.
_IMAGES = re.compile(r'"\w+For\w*Image\w*"')


def find_kind(path: Path) -> tuple[str, str] | None:
    """Returns the kind of an existing model and the template of its class, or None if unknown."""
    config = path / "config.json"
    text = config.read_text(errors="replace") if config.is_file() else ""
    if '"architectures"' in text or '"model_type"' in text:
        template = "image" if _IMAGES.search(text) else "embedding"
        return "a model of Transformers", f"transformers-{template}"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(16)
    for suffix, beginning, kind, template in _KINDS:
        if path.suffix.lower() == suffix and start.startswith(beginning):
            return kind, template
    return None


def describe_unread(path: Path) -> str:
    """Returns advice about a file of a known kind: ``"; a Python pickle: a class ..."``, or ``""``.

    The advice names the command that writes the class.
    """
    found = find_kind(path)
    if found is None:
        return ""
    kind, template = found
    return f"; {path.name} is {kind}: {name_command(path, template)} writes a class that runs it"


def name_command(path: Path, template: str) -> str:
    """Returns the command that writes a class for a model, named after the model's file."""
    name = re.sub(r"\W", "_", path.resolve().stem.lower(), flags=re.ASCII)
    if not re.match("[a-z]", name) or keyword.iskeyword(name) or is_module(name):
        name = f"model_{name}"
    return f"modelflow new model {name[:64]} --for {template}"
