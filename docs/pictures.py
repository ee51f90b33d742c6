"""Takes pictures of the dashboard and the editor: ``python docs/pictures.py FOLDER``.

Each state is taken in light and dark at three widths: ``STATE-SCHEME-WIDTH.png``. With ``--used``,
only the pictures that exist in the folder already are taken again. The pages of the documentation
use those of ``docs/images``. Needs Chromium and the group ``test``.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from modelflow.profile.snapshot import Snapshot
from modelflow.studio.dashboard import Dashboard

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser import browsing, one_browser  # noqa: E402
from tests.studio.edit.page import Page, editing  # noqa: E402
from tests.studio.load import load, slow_flow  # noqa: E402

SCHEMES = ("light", "dark")
WIDTHS = {1920: 1080, 1280: 800, 390: 844}
_LOAD_SECONDS = 40

Take = Callable[[str, Any], None]
"""Takes a picture of a state of a page."""


def _take(folder: Path, is_used: bool, scheme: str, state: str, page: Any) -> None:
    is_long = state.startswith("dashboard")
    for width, height in WIDTHS.items():
        path = folder / f"{state}-{scheme}-{width}.png"
        if is_used and not path.exists():
            continue
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(400)
        page.screenshot(path=path, full_page=is_long or width == min(WIDTHS))
    page.set_viewport_size({"width": 1280, "height": 800})


# -- the dashboard --------------------------------------------------------------------------------


def _show_dashboard(take: Take, scheme: str) -> None:
    over = threading.Event()
    with slow_flow(over.wait) as flow:
        look = partial(Snapshot.of_flow, flow)
        with (
            browsing(color_scheme=scheme) as found,
            contextlib.ExitStack() as end,
        ):
            served = end.enter_context(Dashboard(look, record=flow.record))
            found.open(served.url)
            page = found.page
            page.locator("[data-node=infer]").wait_for()
            take("dashboard-empty", page)
            with load(flow):
                page.get_by_role("button", name="1 min").click()
                page.get_by_role("button", name="Record").click()
                page.wait_for_timeout(_LOAD_SECONDS * 1000)
                take("dashboard", page)
                page.locator("[data-node=infer]").click()
                take("dashboard-node", page)
                over.set()
            over.clear()
            for number in range(30):
                flow.infer(number)
            page.get_by_role("button", name="Stop recording").click()
            page.locator("[data-request] summary").first.click()
            page.locator("[data-request]").first.scroll_into_view_if_needed()
            take("dashboard-requests", page)
            end.close()
            page.locator("[data-link=ended]").wait_for()
            take("dashboard-ended", page)


# -- the editor -----------------------------------------------------------------------------------


def _draw_scenes(folder: Path) -> list[Path]:
    paths = []
    for number in range(3):
        picture = np.full((240, 320, 3), 30, np.uint8)
        center = (80 + 20 * number, 70 + 10 * number)
        cv2.circle(picture, center, 30, (240, 200, 180), cv2.FILLED, cv2.LINE_AA)
        cv2.rectangle(picture, (190, 130), (250, 190), (120, 220, 250), cv2.FILLED, cv2.LINE_AA)
        paths.append(folder / f"scene_{number}.png")
        cv2.imwrite(str(paths[-1]), picture)
    return paths


def _run(page: Any, files: Sequence[Path], take: Take | None = None) -> None:
    page.get_by_role("button", name="Run", exact=True).click()
    dialog = page.get_by_role("dialog", name="Run the graph")
    dialog.locator("input[type=file]").set_input_files(files)
    if take is not None:
        take("editor-run-dialog", page)
    dialog.get_by_role("button", name="Run", exact=True).click()
    page.locator("[data-run=done]").wait_for()
    page.get_by_role("button", name="Show results").click()
    page.locator(".value").first.wait_for()


def _show_ready_graph(take: Take, scheme: str, folder: Path) -> None:
    shutil.copytree(ROOT / "graphs", folder / "graphs")
    scenes = _draw_scenes(folder)
    with editing(folder / "graphs" / "detect_classify.toml", color_scheme=scheme) as edited:
        page = edited.page
        edited.node("crop").focus()
        take("editor", page)
        _run(page, scenes, take)
        take("editor-run", page)
        page.keyboard.press("Control+f")
        page.keyboard.type("crop")
        page.keyboard.press("Enter")
        take("editor-find", page)
        for name, state in (("Serve…", "editor-serve"), ("Show keys", "editor-keys")):
            page.get_by_role("button", name=name).click()
            take(state, page)
            page.keyboard.press("Escape")
        text = edited.source.input_value()
        edited.source.fill(text.replace("crop:in_image", "crop:in_imag"))
        page.locator("[data-finding=crop]").click()
        take("editor-error", page)


def _show_new_graph(take: Take, scheme: str, folder: Path) -> None:
    shutil.copytree(ROOT / "graphs" / "models" / "shapes", folder / "models")
    with editing(folder / "new.toml", color_scheme=scheme) as edited:
        page = edited.page
        page.locator("[data-starter]").first.wait_for()
        take("editor-templates", page)
        page.locator("[data-starter=empty]").click()
        for number, model in enumerate(("shape_detect.onnx", "shapes.onnx")):
            page.get_by_role("button", name="A model…").click()
            page.locator("[data-model]").first.wait_for()
            if not number:
                take("editor-models", page)
            page.locator(f"[data-model='models/{model}']").click()
            page.get_by_role("button", name="Add to the graph").wait_for()
            take(("editor-detector", "editor-model")[number], page)
            page.get_by_role("button", name="Add to the graph").click()
            page.get_by_role("dialog").wait_for(state="detached")
        _show_search(edited, take)


def _show_search(edited: Page, take: Take) -> None:
    stage = edited.page.locator(".stage").bounding_box()
    edited.page.mouse.dblclick(stage["x"] + 200, stage["y"] + 60)
    edited.page.keyboard.type("dec")
    take("editor-search", edited.page)


def main() -> None:
    """Takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--used", action="store_true", help="only pictures that exist already")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with one_browser():
        for scheme in SCHEMES:
            take = partial(_take, given.folder, given.used, scheme)
            for show in (_show_ready_graph, _show_new_graph):
                with tempfile.TemporaryDirectory() as folder:
                    show(take, scheme, Path(folder))
        for scheme in SCHEMES:  # its units would be listed in the editor
            _show_dashboard(partial(_take, given.folder, given.used, scheme), scheme)


if __name__ == "__main__":
    main()
