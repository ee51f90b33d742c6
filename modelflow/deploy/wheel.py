"""Packs the running modelflow as a wheel for installation in an image without an index."""

import base64
import csv
import hashlib
import io
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

NAME = "modelflow-graph"
# Files that installers write. The installer of the new wheel writes its own.
_OF_INSTALLERS = frozenset(("INSTALLER", "RECORD", "REQUESTED", "direct_url.json"))
_DATE = (1980, 1, 1, 0, 0, 0)  # constant, so the same files give the same wheel


def pack_wheel(folder: Path) -> Path | None:
    """Writes the installed modelflow into a folder as a wheel, and returns its path.

    Returns None for an installation from a clone (``pip install -e``), whose files are elsewhere.
    The format is the binary distribution format of PyPA's specifications.
    """
    try:
        found = distribution(NAME)
    except PackageNotFoundError:
        return None
    files = _files(found)
    if "modelflow/__init__.py" not in files:
        return None
    lines_of_tags = (found.read_text("WHEEL") or "").splitlines()
    tags = [line.partition(":")[2].strip() for line in lines_of_tags if line.startswith("Tag:")]
    path = folder / f"{NAME.replace('-', '_')}-{found.version}-{tags[0]}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        record = io.StringIO()
        lines = csv.writer(record, lineterminator="\n")
        for name, contents in files.items():
            wheel.writestr(zipfile.ZipInfo(name, _DATE), contents, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=")
            lines.writerow((name, f"sha256={digest.decode()}", len(contents)))
        info = next(name for name in files if name.endswith(".dist-info/METADATA"))
        place = str(PurePosixPath(info).with_name("RECORD"))
        lines.writerow((place, "", ""))
        wheel.writestr(zipfile.ZipInfo(place, _DATE), record.getvalue(), zipfile.ZIP_DEFLATED)
    return path


def _files(found: Distribution) -> dict[str, bytes]:
    """Returns the files of the wheel without the programs in ``bin``, which installers create."""
    kept = {}
    for file in sorted(found.files or ()):
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        if file.name in _OF_INSTALLERS and file.parent.suffix == ".dist-info":
            continue
        kept[file.as_posix()] = file.read_binary()
    return kept
