"""The folder of the graphs and models that come with modelflow."""

from pathlib import Path


def ready_graphs() -> Path:
    """Returns the folder of the graphs that come with modelflow."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "graphs"  # in a wheel
    return inside if inside.is_dir() else package.parent / "graphs"  # in a source checkout
