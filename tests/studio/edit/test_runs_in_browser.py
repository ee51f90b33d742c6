"""Tests of the editor's runs from a user's view, in a real browser."""

import os
import re

import cv2
import pytest
from sklearn.datasets import load_sample_image

from tests.browser import needs_browser
from tests.studio.axe import serious
from tests.studio.edit.page import editing, said
from tests.studio.edit.test_trials import GRAPH as STEPS
from tests.studio.edit.test_trials import path, write

__all__ = ["path"]

pytestmark = needs_browser

IMAGES = """digraph photos {
    input[type=input]
    decode[flowunit=image_decoder]
    small[flowunit=resize, image_width=160, image_height=120]
    output[type=output]
    input -> decode -> small -> output
}
"""


@pytest.fixture
def images(tmp_path):
    path = tmp_path / "photos.dot"
    path.write_text(IMAGES)
    return path


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "china.jpg"
    cv2.imwrite(str(path), load_sample_image("china.jpg")[:, :, ::-1])
    return path


def run_on_text(edited, text, *, kind="text", is_repeated=False):
    page = edited.page
    page.get_by_role("button", name="Run", exact=True).click()
    dialog = page.get_by_role("dialog", name="Run the graph")
    dialog.get_by_label("data").select_option(kind)
    dialog.get_by_role("textbox").fill(text)
    if is_repeated:
        dialog.get_by_label("repeat until stopped").check()
    dialog.get_by_role("button", name="Run", exact=True).click()


def state(edited, name):
    from playwright.sync_api import expect

    expect(edited.page.locator(f"[data-run={name}]")).to_be_visible()


def see(edited, source, target):
    """Selects an edge by the fields of its source, as a user without a mouse does."""
    edited.node(source).click()
    text = f"→ {target}:"
    edited.page.locator(".edges .link").filter(has_text=text).first.click()
    return edited.page.locator(f"[aria-label^='Edge {source}:']")


def test_an_image_is_seen_on_every_edge_that_it_passes(images, photo):
    from playwright.sync_api import expect

    with editing(images) as edited:
        page = edited.page
        page.keyboard.press("Control+Enter")
        page.locator("[data-sample=input] input[type=file]").set_input_files(photo)
        page.get_by_role("dialog").get_by_role("button", name="Run", exact=True).click()
        state(edited, "done")
        assert re.search(r"rows/s", edited.node("small").text_content())
        panel = see(edited, "small", "output")
        expect(panel).to_contain_text("1 buffer")
        expect(panel.locator("dd").first).to_have_text("uint8 (120, 160, 3)")
        shown = panel.get_by_role("img", name="uint8 (120, 160, 3)")
        expect(shown).to_be_visible()
        assert shown.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [160, 120]
        panel = see(edited, "input", "decode")
        assert panel.get_by_role("img").evaluate("image => image.naturalWidth") == 640
        expect(panel.locator("summary")).to_have_text("meta")


def test_json_is_seen_as_a_tree_and_a_number_as_itself(path):
    from playwright.sync_api import expect

    write(path, '{"length": len(x), "parts": [1, {"deep": True}]}')
    with editing(path) as edited:
        run_on_text(edited, '["a", "b"]', kind="json")
        state(edited, "done")
        panel = see(edited, "step", "output")
        expect(panel.locator(".leaf")).to_have_text(["length: 2", "0: 1", "1: deep: true"])
        expect(panel.locator("summary")).to_have_text(["2 keys", "parts: list of 2"])
        panel.get_by_role("button", name="step").click()
        panel = see(edited, "input", "step")
        expect(panel.locator(".leaf")).to_have_text(['0: "a"', '1: "b"'])


def test_a_run_that_goes_on_shows_its_figures_on_the_canvas_until_it_is_stopped(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        run_on_text(edited, "four", is_repeated=True)
        state(edited, "running")
        expect(edited.node("step")).to_have_attribute("aria-label", re.compile(r"[1-9].* rows/s"))
        panel = see(edited, "step", "output")
        expect(panel.locator("[data-passed]")).not_to_have_attribute("data-passed", "0")
        edited.page.get_by_role("button", name="Stop", exact=True).click()
        state(edited, "stopped")
        expect(edited.page.get_by_role("button", name="Run", exact=True)).to_be_enabled()


def test_what_fails_is_said_at_its_node_and_on_its_edge(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        run_on_text(edited, "5", kind="json")
        state(edited, "done")
        expect(edited.page.locator("[data-trouble=step]")).to_contain_text("has no len()")
        panel = see(edited, "step", "output")
        expect(panel.locator("[data-value=error]")).to_contain_text("has no len()")


def test_a_sample_that_is_none_is_said_and_the_dialog_keeps_what_was_chosen(path):
    from playwright.sync_api import expect

    with editing(path, refusals=("422",)) as edited:
        run_on_text(edited, "{", kind="json")
        dialog = edited.page.get_by_role("dialog")
        expect(dialog.get_by_role("alert")).to_contain_text("'{' is no JSON")
        expect(dialog.get_by_role("textbox")).to_have_value("{")
        dialog.get_by_role("textbox").fill('"four"')
        dialog.get_by_role("button", name="Run", exact=True).click()
        state(edited, "done")
        expect(dialog).to_have_count(0)


def test_a_graph_that_is_wrong_is_not_asked_for_samples(path):
    from playwright.sync_api import expect

    path.write_text(STEPS.replace("flowunit=step", "flowunit=stp"))
    with editing(path) as edited:
        edited.page.keyboard.press("Control+Enter")
        said(edited, "the graph cannot run: see the error below")
        expect(edited.page.get_by_role("dialog")).to_have_count(0)


def test_a_page_that_is_opened_again_takes_up_a_run_that_is_under_way(path, tmp_path):
    from playwright.sync_api import expect

    go = tmp_path / "go"
    os.mkfifo(go)
    # until the test writes to the pipe
    waiting = f"__import__('pathlib').Path({str(go)!r}).read_text()"
    write(path, f"({waiting}, x)[1]")
    with editing(path) as edited:
        run_on_text(edited, "four")
        state(edited, "running")
        edited.page.reload()
        state(edited, "running")
        expect(edited.page.get_by_role("button", name="Stop", exact=True)).to_be_enabled()
        go.write_text("")
        state(edited, "done")


def test_a_run_that_repeats_ends_with_its_page(path):
    with editing(path) as edited:
        run_on_text(edited, "four", is_repeated=True)
        state(edited, "running")
        edited.page.reload()
        state(edited, "stopped")


def test_another_run_shows_its_own_values(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        for text in ("a", "bb", "ccc", "dddd"):
            run_on_text(edited, text)
            state(edited, "done")
            panel = see(edited, "input", "step")
            expect(panel.locator("pre")).to_have_text(text)


def test_the_results_are_seen_at_the_output(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        run_on_text(edited, "four")
        state(edited, "done")
        edited.node("output").click()
        panel = edited.page.get_by_role("region", name="Node output")
        expect(panel.locator(".leaf")).to_have_text("4")


def test_what_is_typed_and_not_saved_is_what_runs(path):
    from playwright.sync_api import expect

    write(path, "x + x")
    with editing(path) as edited:
        typed = STEPS.replace("step -> output", "step -> again -> output")
        edited.source.fill(typed.replace("output[", "again[flowunit=step]\n    output["))
        expect(edited.node("again")).to_be_visible()
        run_on_text(edited, "ab")
        state(edited, "done")
        panel = see(edited, "again", "output")
        expect(panel.locator("pre")).to_have_text("abababab")
    assert path.read_text() == STEPS


def test_a_new_file_begins_with_the_graph_that_is_chosen(tmp_path):
    from playwright.sync_api import expect

    path = tmp_path / "new.toml"
    with editing(path) as edited:
        dialog = edited.page.get_by_role("dialog", name="new.toml is new")
        dialog.locator("[data-starter=images]").click()
        expect(dialog).to_have_count(0)
        expect(edited.node("resize")).to_be_visible()
        expect(edited.page.get_by_text("No errors")).to_be_visible()
        edited.save()
    assert "image_encoder" in path.read_text()


def test_a_new_unit_is_made_and_put_into_the_graph_and_run(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        edited.page.get_by_role("button", name="Create a unit").click()
        dialog = edited.page.get_by_role("dialog", name="Create a unit")
        dialog.get_by_role("textbox").fill("twice")
        dialog.get_by_role("button", name="Create").click()
        said(edited, "units/twice/twice.py")
        edited.page.keyboard.press("/")
        edited.page.keyboard.type("twice")
        expect(edited.page.locator("[data-unit=twice]")).to_be_visible()
        edited.page.keyboard.press("Enter")
        expect(edited.node("twice")).to_be_visible()
        field = edited.page.locator("[data-field=factor]")
        expect(field).to_have_attribute("placeholder", "2.0")
    assert (path.parent / "units" / "twice" / "test_twice.py").exists()


def test_an_argument_is_given_in_the_page(tmp_path):
    from playwright.sync_api import expect

    (tmp_path / "a.txt").write_text("hello")
    path = tmp_path / "graph.toml"
    path.write_text(
        "[args.place]\ndesc = 'where to'\n[graph]\ngraphconf = '''digraph g {\n"
        'files[flowunit=file_source, path="*.txt"]\nsave[flowunit=file_sink, path="$place"]\n'
        "files -> save }'''\n".replace("}}", "}")
    )
    with editing(path) as edited:
        found = edited.page.locator("[data-finding=save]")
        expect(found).to_contain_text("give place a value among the arguments")
        field = edited.page.locator("[data-argument=place]")
        field.fill(f"{tmp_path}/none/{{stem}}.out")
        field.press("Enter")
        expect(edited.page.get_by_text("No errors")).to_be_visible()
        field.fill(f"{tmp_path}/{{stem}}.out")
        field.press("Control+Enter")  # typed text counts although the field still has the focus
        state(edited, "done")
    assert (tmp_path / "a.out").read_text() == "hello"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_run(path, scheme):
    from playwright.sync_api import expect

    write(path, '{"length": [len(x)]}')
    with editing(path, color_scheme=scheme) as edited:
        run_on_text(edited, "5", kind="json")
        state(edited, "done")
        run_on_text(edited, "four")
        state(edited, "done")
        panel = see(edited, "step", "output")
        expect(panel.locator(".leaf")).to_be_visible()
        assert serious(edited.page) == ""
        edited.page.get_by_role("button", name="Run", exact=True).click()
        expect(edited.page.get_by_role("dialog")).to_be_visible()
        assert serious(edited.page, "'dialog'") == ""
