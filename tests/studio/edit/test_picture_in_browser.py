"""Tests of the editor's picture in a real browser: selection, places, search, panes, drafts."""

import re
import shutil
from pathlib import Path

import pytest

from tests.browser import needs_browser
from tests.studio.axe import serious
from tests.studio.edit.page import Page, editing, middle, said
from tests.studio.edit.test_in_browser import DOT, edited, path

__all__ = ["edited", "path"]

pytestmark = needs_browser

SHAPES = Path(__file__).resolve().parents[3] / "graphs" / "models" / "shapes"


def _wide(path, count=14):
    """Writes a chain of so many nodes, which is wider than the picture's pane."""
    nodes = [f"    n{k}[flowunit=resize, image_width=8, image_height=8]" for k in range(count)]
    chain = " -> ".join(f"n{k}" for k in range(count))
    path.write_text("\n".join(["digraph wide {", *nodes, f"    {chain}", "}", ""]))


def _is_visible(edited, name):
    stage = edited.page.locator(".stage").bounding_box()
    x, y = middle(edited.node(name))
    is_across = stage["x"] < x < stage["x"] + stage["width"]
    return is_across and stage["y"] < y < stage["y"] + stage["height"]


def _focused(edited):
    return edited.page.evaluate("document.activeElement.dataset.body")


def _selected(edited):
    return edited.page.locator("[data-node].selected").evaluate_all(
        "nodes => nodes.map(node => node.dataset.node)"
    )


# -- selection and places ------------------------------------------------------------------------


def test_an_area_selects_the_nodes_that_it_touches(edited):
    mouse, page = edited.page.mouse, edited.page
    left, right = edited.node("input").bounding_box(), edited.node("small").bounding_box()
    page.keyboard.down("Shift")
    mouse.move(left["x"] - 15, right["y"] - 30)
    mouse.down()
    mouse.move(right["x"] + 20, right["y"] + 60)
    mouse.up()
    page.keyboard.up("Shift")
    assert _selected(edited) == ["input", "small"]
    page.keyboard.press("Escape")
    assert _selected(edited) == []


def test_a_dragged_node_aligns_with_the_others_and_alt_places_freely(edited):
    from playwright.sync_api import expect

    mouse, page = edited.page.mouse, edited.page
    x, y = middle(edited.node("small"))
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 40, y + 60)
    mouse.move(x + 40, y + 4)  # close to the line of the other nodes
    expect(page.locator(".guide")).to_have_count(1)
    page.keyboard.down("Alt")
    mouse.move(x + 40, y + 5)
    expect(page.locator(".guide")).to_have_count(0)
    page.keyboard.up("Alt")
    mouse.move(x + 40, y + 4)
    mouse.up()
    expect(edited.source).to_have_value(re.compile("pos="))
    assert middle(edited.node("small"))[1] == pytest.approx(middle(edited.node("input"))[1], abs=1)


def test_keys_move_the_selection(edited):
    from playwright.sync_api import expect

    before = middle(edited.node("small"))
    edited.node("small").focus()
    edited.page.keyboard.press("Alt+ArrowDown")
    expect(edited.source).to_have_value(re.compile(r"small\[.*pos="))
    x, y = middle(edited.node("small"))
    assert (x, y) == (pytest.approx(before[0], abs=1), pytest.approx(before[1] + 16, abs=1))


def test_nodes_stay_where_they_are_while_others_are_added(edited):
    from playwright.sync_api import expect

    before = {name: middle(edited.node(name)) for name in ("input", "small", "output")}
    for number, unit in enumerate(("mean", "crop", "padding"), 1):
        edited.page.locator(f"[data-unit={unit}]").click()
        expect(edited.page.locator("[data-body]")).to_have_count(3 + number)
    frame = edited.page.locator(".canvas > g").get_attribute("transform")
    assert frame  # the view may have moved, so only distances are compared
    after = {name: middle(edited.node(name)) for name in before}
    for name in ("small", "output"):
        for axis in (0, 1):
            way = after[name][axis] - after["input"][axis]
            assert way == pytest.approx(before[name][axis] - before["input"][axis], abs=1)


def test_the_view_follows_what_is_added_and_focused(tmp_path):
    from playwright.sync_api import expect

    path = tmp_path / "wide.dot"
    _wide(path)
    with editing(path) as edited:
        assert not _is_visible(edited, "n13")
        edited.page.locator("[data-unit=mean]").click()
        expect(edited.node("mean")).to_be_focused()
        assert _is_visible(edited, "mean")
        edited.node("n0").focus()
        for number in range(1, 14):
            edited.page.keyboard.press("ArrowRight")
            assert _focused(edited) == f"n{number}"
        edited.page.wait_for_function("true")
        assert _is_visible(edited, "n13")


def test_the_minimap_moves_the_view(tmp_path):
    from playwright.sync_api import expect

    path = tmp_path / "wide.dot"
    _wide(path)
    with editing(path) as edited:
        minimap = edited.page.locator(".minimap")
        box = minimap.bounding_box()
        minimap.click(position={"x": box["width"] - 4, "y": box["height"] / 2})
        assert _is_visible(edited, "n13")
        edited.page.get_by_role("button", name="Fit", exact=True).click()
        expect(minimap).to_have_count(0)  # everything is visible


# -- adding units --------------------------------------------------------------------------------


def test_a_double_click_adds_a_unit_at_the_place(edited):
    from playwright.sync_api import expect

    stage = edited.page.locator(".stage").bounding_box()
    edited.page.mouse.dblclick(stage["x"] + 300, stage["y"] + 60)
    dialog = edited.page.get_by_role("dialog", name="Add a unit here")
    edited.page.keyboard.type("crop_b")
    edited.page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(edited.node("crop_boxes")).to_be_focused()
    box = edited.node("crop_boxes").bounding_box()
    assert (box["x"] - stage["x"], box["y"] - stage["y"]) == pytest.approx((300, 60), abs=20)


def test_a_double_click_on_an_edge_adds_a_unit_into_it(edited):
    from playwright.sync_api import expect

    x0, y0 = middle(edited.port("small", "out_image", "output"))
    x1, y1 = middle(edited.port("output", "output", "input"))
    edited.page.mouse.dblclick((x0 + x1) / 2, (y0 + y1) / 2)
    dialog = edited.page.get_by_role("dialog", name="Add a unit into small → output")
    expect(dialog.locator("[data-unit=file_source]")).to_have_count(0)  # has no input
    dialog.locator("[data-unit=mean]").click()
    expect(edited.wire("small", "mean")).to_have_count(1)
    expect(edited.wire("mean", "output")).to_have_count(1)
    expect(edited.wire("small", "output")).to_have_count(0)


@pytest.mark.parametrize("way", ["palette", "node"])
def test_a_unit_that_is_dropped_on_an_edge_goes_into_it(edited, way):
    from playwright.sync_api import expect

    x0, y0 = middle(edited.port("small", "out_image", "output"))
    x1, y1 = middle(edited.port("output", "output", "input"))
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    stage = edited.page.locator(".stage").bounding_box()
    unit = edited.page.locator("[data-unit=color_convert]")
    if way == "palette":
        unit.drag_to(
            edited.page.locator(".stage"),
            target_position={"x": x - stage["x"], "y": y - stage["y"]},
        )
    else:
        unit.drag_to(edited.page.locator(".stage"), target_position={"x": 300, "y": 380})
        mouse = edited.page.mouse
        mouse.move(*middle(edited.node("color_convert")))
        mouse.down()
        mouse.move(x + 30, y + 30)
        mouse.move(x, y)
        expect(edited.page.locator(".line.taking")).to_have_count(1)
        mouse.up()
    expect(edited.wire("small", "color_convert")).to_have_count(1)
    expect(edited.wire("color_convert", "output")).to_have_count(1)
    expect(edited.wire("small", "output")).to_have_count(0)
    edited.page.keyboard.press("Control+z")
    expect(edited.wire("small", "output")).to_have_count(1)  # one step of undo


@pytest.mark.parametrize("way", ["palette", "button"])
def test_a_unit_is_inserted_into_the_selected_edge(edited, way):
    from playwright.sync_api import expect

    edited.wire("small", "output").locator(".grip").click(force=True)
    if way == "button":
        edited.page.get_by_role("button", name="Insert a unit…").click()
        edited.page.get_by_role("dialog").locator("[data-unit=mean]").click()
    else:
        edited.page.locator("[data-unit=mean]").click()
    expect(edited.wire("small", "mean")).to_have_count(1)
    expect(edited.wire("mean", "output")).to_have_count(1)
    assert "pos" not in edited.source.input_value()


def test_a_wire_is_drawn_from_an_input_as_well(edited):
    from playwright.sync_api import expect

    edited.wire("small", "output").locator(".grip").click(force=True)
    edited.page.keyboard.press("Delete")
    expect(edited.wire("small", "output")).to_have_count(0)
    edited.drag(
        edited.port("output", "output", "input"), edited.port("small", "out_image", "output")
    )
    expect(edited.wire("small", "output")).to_have_count(1)


def test_units_that_are_added_in_quick_succession_all_come(edited):
    from playwright.sync_api import expect

    unit = edited.page.locator("[data-unit=mean]")
    unit.evaluate("unit => { for (let k = 0; k < 5; k++) unit.click(); }")
    expect(edited.page.locator("[data-body]")).to_have_count(8)
    for name in ("mean", "mean_2", "mean_3", "mean_4", "mean_5"):
        expect(edited.node(name)).to_be_visible()


def test_a_key_adds_a_unit_behind_a_node(edited):
    from playwright.sync_api import expect

    edited.node("small").focus()
    edited.page.keyboard.press("a")
    edited.page.get_by_role("dialog", name="Add a unit behind small:out_image").wait_for()
    edited.page.keyboard.type("mean")
    edited.page.keyboard.press("Enter")
    expect(edited.wire("small", "mean")).to_have_count(1)
    expect(edited.node("mean")).to_be_focused()
    assert "pos" not in edited.source.input_value()


def test_a_unit_goes_behind_a_node_of_the_same_name_and_into_its_edge(tmp_path):
    from playwright.sync_api import expect

    path = tmp_path / "same.dot"
    path.write_text(DOT.replace("small[flowunit=resize, ", "resize[").replace("small", "resize"))
    with editing(path) as edited:
        x0, y0 = middle(edited.port("resize", "out_image", "output"))
        x1, y1 = middle(edited.port("output", "output", "input"))
        edited.page.mouse.dblclick((x0 + x1) / 2, (y0 + y1) / 2)
        edited.page.get_by_role("dialog").locator("[data-unit=resize]").click()
        expect(edited.wire("resize", "resize_2")).to_have_count(1)
        expect(edited.wire("resize_2", "output")).to_have_count(1)
        edited.node("resize").focus()
        edited.page.keyboard.press("a")
        edited.page.get_by_role("dialog").locator("[data-unit=resize]").click()
        expect(edited.wire("resize", "resize_3")).to_have_count(1)


def test_the_units_are_one_tab_stop_with_arrow_keys(edited):
    from playwright.sync_api import expect

    edited.page.keyboard.press("/")
    edited.page.keyboard.type("resi")
    edited.page.keyboard.press("ArrowDown")
    # Units that other tests of this process have registered may come first.
    expect(edited.page.locator("[data-unit]").first).to_be_focused()
    edited.page.keyboard.press("Tab")
    assert edited.page.evaluate("document.activeElement.dataset.unit") is None


# -- find, comments, panes, drafts ---------------------------------------------------------------


def test_find_goes_through_nodes_and_lines(edited):
    from playwright.sync_api import expect

    edited.page.keyboard.press("Control+f")
    edited.page.keyboard.type("small")
    matches = edited.page.locator("[data-matches]")
    expect(matches).to_have_text("3: 1 in nodes, 2 in the text")
    edited.page.keyboard.press("Enter")
    assert _selected(edited) == ["small"]
    edited.page.keyboard.press("Enter")
    expect(matches).to_have_text("2 of 3: 1 in nodes, 2 in the text")
    chosen = edited.source.evaluate("e => e.value.slice(e.selectionStart, e.selectionEnd)")
    assert chosen == "small"
    edited.page.keyboard.press("Escape")
    expect(edited.node("small")).to_be_focused()
    expect(edited.page.get_by_role("search")).to_have_count(0)


def test_a_comment_stands_at_its_node_and_in_the_file(edited, path):
    from playwright.sync_api import expect

    edited.node("small").click()
    field = edited.page.locator("[data-field=comment]")
    field.fill("fits the model")
    field.press("Enter")
    expect(edited.page.locator("[data-node=small] .comment")).to_contain_text("fits the model")
    expect(edited.page.get_by_text("No errors")).to_be_visible()
    edited.save()
    assert 'comment="fits the model"' in path.read_text()


def test_the_text_has_colours_and_no_letter_is_lost(edited):
    shown = edited.page.locator(".text pre")
    assert shown.evaluate("pre => pre.textContent") == DOT + "\n"
    assert shown.locator(".comment").all_text_contents() == ["// what comes in"]
    assert shown.locator(".arrow").count() == 2


def test_panes_are_resized_by_mouse_and_keys_and_stay_so(edited):
    page = edited.page
    splitter = page.get_by_role("separator", name="Width of the units")
    before = page.locator(".palette").bounding_box()["width"]
    x, y = middle(splitter)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y)
    page.mouse.up()
    assert page.locator(".palette").bounding_box()["width"] == pytest.approx(before + 60, abs=2)
    splitter.focus()
    page.keyboard.press("ArrowRight")
    wide = page.locator(".palette").bounding_box()["width"]
    assert wide == pytest.approx(before + 76, abs=2)
    page.reload()
    page.locator("[data-unit=resize]").wait_for()
    assert page.locator(".palette").bounding_box()["width"] == wide


def test_unsaved_work_survives_a_reload_and_undo_returns_to_the_file(edited, path):
    from playwright.sync_api import expect

    edited.source.fill(DOT + "// mine\n")
    edited.page.reload()
    said(edited, "restored your unsaved changes")
    expect(edited.source).to_have_value(DOT + "// mine\n")
    edited.page.locator(".stage").click(position={"x": 5, "y": 5})
    edited.page.keyboard.press("Control+z")
    expect(edited.source).to_have_value(DOT)
    edited.page.reload()
    edited.page.locator("[data-unit=resize]").wait_for()
    expect(edited.source).to_have_value(DOT)
    assert path.read_text() == DOT


def test_the_saved_file_comes_back_and_undo_restores_the_changes(edited):
    from playwright.sync_api import expect

    edited.source.fill(DOT + "// mine\n")
    edited.page.get_by_role("button", name="Show changes").click()
    edited.page.get_by_role("button", name="Return to the saved file").click()
    expect(edited.source).to_have_value(DOT)
    edited.page.get_by_role("button", name="Undo", exact=True).click()
    expect(edited.source).to_have_value(DOT + "// mine\n")


def test_the_last_picture_of_a_text_that_is_no_graph_is_marked(edited):
    from playwright.sync_api import expect

    mark = edited.page.get_by_text("The picture shows the last one")
    edited.source.fill(DOT.replace("digraph", "nonsense"))
    expect(mark).to_be_visible()
    edited.source.fill(DOT)
    expect(mark).to_have_count(0)


def test_the_buttons_stay_in_place_when_work_is_changed_and_saved(edited):
    run = edited.page.get_by_role("button", name="Run", exact=True)
    before = run.bounding_box()
    edited.source.fill(DOT + "// mine\n")
    edited.page.locator(".dirty:not(.hidden)").wait_for()
    assert run.bounding_box() == before
    edited.save()
    assert run.bounding_box() == before


def test_a_dot_file_says_at_once_that_it_takes_no_models(edited):
    edited.page.get_by_role("button", name="A model…").click()
    dialog = edited.page.get_by_role("dialog", name="A DOT file names no folders of units")
    dialog.get_by_text("modelflow convert").wait_for()


def test_unsaved_work_and_a_changed_file_are_compared(edited, path):
    from playwright.sync_api import expect

    edited.source.fill(DOT + "// mine\n")
    path.write_text(DOT + "// theirs\n")
    edited.page.reload()
    dialog = edited.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Another program changed photos.dot")
    dialog.get_by_role("button", name="Load the file").click()
    expect(edited.source).to_have_value(DOT + "// theirs\n")


def test_a_page_without_changes_takes_a_changed_file_silently(edited, path):
    from playwright.sync_api import expect

    path.write_text(DOT + "// theirs\n")
    edited.page.evaluate("dispatchEvent(new Event('focus'))")
    said(edited, "loaded photos.dot, which another program has changed")
    expect(edited.source).to_have_value(DOT + "// theirs\n")
    expect(edited.page.get_by_role("dialog")).to_have_count(0)


def test_unsaved_work_survives_reloads_while_the_units_are_not_read(edited):
    from playwright.sync_api import expect

    edited.source.fill(DOT + "// mine\n")
    edited.page.route("**/api/units*", lambda route: None)  # a slow import
    edited.page.reload()
    edited.page.wait_for_selector(".editor")
    edited.page.reload()
    edited.page.wait_for_selector(".editor")
    edited.page.unroute("**/api/units*")
    edited.page.reload()
    expect(edited.source).to_have_value(DOT + "// mine\n")


def test_unsaved_work_of_a_tab_survives_the_save_of_another_tab(edited, path):
    from playwright.sync_api import expect

    other = edited.page.context.new_page()
    other.goto(edited.page.url)
    other.locator("[data-body=small]").wait_for()
    edited.source.fill(DOT + "// one\n")
    tab = Page(other, path)
    tab.source.fill(DOT + "// two\n")
    tab.save()
    edited.page.reload()
    expect(edited.source).to_have_value(DOT + "// one\n")
    expect(edited.page.get_by_role("dialog")).to_contain_text("Another program changed photos.dot")


@pytest.mark.parametrize("task", ["stand", "save"])
def test_a_save_is_not_taken_for_another_programs(edited, path, task):
    from playwright.sync_api import expect

    held = []
    edited.page.route(f"**/api/{task}*", lambda route: held.append((route, route.fetch())))
    edited.source.fill(DOT + "// mine\n")
    script = "dispatchEvent(new Event('focus'))"
    if task == "stand":
        edited.page.evaluate(script)
    edited.page.keyboard.press("Control+s")
    if task == "save":
        edited.page.evaluate(script)
    while not held:
        edited.page.wait_for_timeout(10)
    edited.page.wait_for_timeout(200)  # without an order of the requests, the other is answered
    held[0][0].fulfill(response=held[0][1])
    said(edited, f"saved {path}")
    expect(edited.page.get_by_role("dialog")).to_have_count(0)
    expect(edited.source).to_have_value(DOT + "// mine\n")


# -- the focus -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["?", "m", "a"])
@pytest.mark.parametrize("end", ["Escape", "button"])
def test_after_a_dialog_the_focus_is_where_it_was(edited, key, end):
    from playwright.sync_api import expect

    edited.node("small").focus()
    edited.page.keyboard.press(key)
    dialog = edited.page.get_by_role("dialog")
    dialog.wait_for()
    button = dialog.get_by_role("button", name=re.compile("Close|Cancel"))
    if end == "button" and key != "a":
        button.click()
    else:
        edited.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(edited.node("small")).to_be_focused()


def test_after_a_removal_the_focus_is_at_a_neighbour(edited):
    from playwright.sync_api import expect

    edited.node("small").focus()
    edited.page.keyboard.press("Delete")
    expect(edited.node("small")).to_have_count(0)
    expect(edited.node("input")).to_be_focused()
    said(edited, "removed small; Undo restores")
    assert _selected(edited) == []
    edited.page.keyboard.press("Delete")
    expect(edited.node("input")).to_be_visible()


# -- screen readers ------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_in_dialogs_and_on_narrow_screens(path, scheme, width):
    from playwright.sync_api import expect

    shutil.copy(SHAPES / "shapes.onnx", path.parent)
    path = path.with_suffix(".toml")
    path.write_text(f"[graph]\ngraphconf = '''{DOT}'''\n")
    with editing(path, color_scheme=scheme) as edited:
        page = edited.page
        page.set_viewport_size({"width": width, "height": 844})
        page.keyboard.press("Control+f")
        page.keyboard.type("small")
        edited.node("small").click(force=True)
        expect(page.locator("[data-field=comment]")).to_be_visible()
        assert serious(page) == ""
        page.get_by_role("button", name="A model…").click()
        page.locator("[data-model]").click()
        page.get_by_role("button", name="Add to the graph").wait_for()
        assert serious(page, "'dialog'") == ""
        page.keyboard.press("Escape")
        for name in ("Serve…", "A folder of units…", "Show keys"):
            page.get_by_role("button", name=name).click()
            page.get_by_role("dialog").wait_for()
            assert serious(page, "'dialog'") == ""
            page.keyboard.press("Escape")
        is_narrow = "document.documentElement.scrollWidth <= innerWidth"
        assert page.evaluate(is_narrow)
