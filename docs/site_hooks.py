"""Adds pages of the folders above to the site, and points links at pages."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# Page of the site -> its file in the repository.
PAGES = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "benchmarks.md": "benchmarks/README.md",
}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of the folders above."""
    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Points links at pages of the site; other files are named by their path."""
    source = ROOT / PAGES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    here = Path("docs", page.file.src_uri).parent

    def linked(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target:
            return found[0]
        path = (source.parent / target).resolve().relative_to(ROOT)
        known = {ROOT / theirs: ours for ours, theirs in PAGES.items()}
        if ROOT / path in known:
            path = Path("docs", known[ROOT / path])
        elif path.parts[0] != "docs" or path.suffix != ".md":
            return f"{text} (`{path}`)"
        return f"[{text}]({_relative(path, here)}{anchor})"

    return _LINK.sub(linked, markdown)


def _relative(path: Path, folder: Path) -> str:
    up = len(folder.parts)
    common = 0
    while common < min(up, len(path.parts) - 1) and folder.parts[common] == path.parts[common]:
        common += 1
    return "/".join([*[".."] * (up - common), *path.parts[common:]])
