"""The suffix of archives, apart from the code that reads archives, which few programs need."""

from pathlib import Path

SUFFIX = ".mfz"


def is_archive_file(path: Path) -> bool:
    """Returns True if a path has the suffix of archives."""
    return path.suffix.lower() == SUFFIX
