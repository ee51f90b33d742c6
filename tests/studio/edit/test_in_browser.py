"""Tests of the editor from a user's view, in a real browser."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from modelflow.studio.edit.editor import Editor
from tests.browser import browsing, needs_browser
from tests.studio.axe import serious
from tests.studio.edit.page import editing, middle, said

pytestmark = needs_browser

ROOT = Path(__file__).resolve().parents[3]
DOT = """digraph photos {
    // what comes in
    input[type=input]
    small[flowunit=resize, image_width=8, image_height=8]
    output[type=output]

    input -> small -> output
}
"""

STEPS = 120


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "photos.dot"
    path.write_text(DOT)
    return path


@pytest.fixture
def edited(path):
    with editing(path) as edited:
        yield edited


def test_the_text_is_the_file(edited, path):
    from playwright.sync_api import expect

    expect(edited.source).to_have_value(path.read_text())
    expect(edited.page.get_by_text("No errors")).to_be_visible()
    expect(edited.page.get_by_role("button", name="Save", exact=True)).to_be_disabled()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "graphs").glob("*.toml")), ids=lambda path: path.stem
)
def test_every_ready_graph_is_seen_whole(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        expect(edited.source).to_have_value(path.read_text())
        edited.page.get_by_role("button", name="Fit", exact=True).click()
        stage = edited.page.locator(".stage").bounding_box()
        bodies = edited.page.locator("[data-body]").all()
        assert len(bodies) >= 5
        for x, y in map(middle, bodies):
            assert stage["x"] < x < stage["x"] + stage["width"]
            assert stage["y"] < y < stage["y"] + stage["height"]


def test_a_unit_is_dragged_into_the_picture_and_connected_by_the_mouse(edited, path):
    from playwright.sync_api import expect

    unit = edited.page.locator("[data-unit=color_convert]")
    unit.drag_to(edited.page.locator(".stage"), target_position={"x": 300, "y": 420})
    expect(edited.node("color_convert")).to_be_visible()
    edited.wire("small", "output").locator(".grip").click(force=True)
    edited.page.keyboard.press("Delete")
    expect(edited.wire("small", "output")).to_have_count(0)
    edited.drag(
        edited.port("small", "out_image", "output"),
        edited.port("color_convert", "in_image", "input"),
    )
    expect(edited.wire("small", "color_convert")).to_have_count(1)
    edited.drag(
        edited.port("color_convert", "out_image", "output"),
        edited.port("output", "output", "input"),
    )
    expect(edited.wire("color_convert", "output")).to_have_count(1)
    edited.save()
    text = path.read_text()
    assert re.search(r'\n    color_convert\[flowunit=color_convert, pos="-?\d+,-?\d+!"\]\n', text)
    assert "    input -> small\n    small -> color_convert\n    color_convert -> output\n" in text
    assert "    // what comes in\n" in text


def test_all_of_it_by_keyboard(edited, path):
    from playwright.sync_api import expect

    keyboard = edited.page.keyboard
    edited.node("small").focus()
    keyboard.press("/")
    keyboard.type("color_conv")
    keyboard.press("Enter")
    expect(edited.node("color_convert")).to_be_focused()
    keyboard.press("Enter")
    expect(edited.page.locator("[data-field=name]")).to_be_focused()
    keyboard.press("Control+a")
    keyboard.type("gray")
    keyboard.press("Enter")
    expect(edited.node("gray")).to_be_visible()
    edited.node("small").focus()
    keyboard.press("c")
    said(edited, "connect small")
    edited.node("gray").focus()
    keyboard.press("Enter")
    expect(edited.wire("small", "gray")).to_have_count(1)
    edited.node("input").focus()
    keyboard.press("ArrowRight")
    expect(edited.node("small")).to_be_focused()
    keyboard.press("ArrowLeft")
    expect(edited.node("input")).to_be_focused()
    edited.node("gray").focus()
    keyboard.press("Delete")
    expect(edited.node("gray")).to_have_count(0)
    keyboard.press("Control+z")
    expect(edited.node("gray")).to_be_visible()
    keyboard.press("Control+s")
    said(edited, "saved")
    assert path.read_text() == DOT.replace(
        "    output[type=output]\n",
        "    output[type=output]\n    gray[flowunit=color_convert]\n",
    ).replace("small -> output\n", "small -> output\n    small -> gray\n")


def test_tab_goes_through_the_nodes_in_the_order_of_the_data(edited):
    edited.node("input").focus()
    order = []
    for _ in range(3):
        order.append(edited.page.evaluate("document.activeElement.dataset.body"))
        edited.page.keyboard.press("Tab")
    assert order == ["input", "small", "output"]


def test_options_are_set_in_the_file_and_defaults_are_not(edited, path):
    from playwright.sync_api import expect

    edited.node("small").click()
    field = edited.page.locator("[data-field=image_width]")
    expect(field).to_have_value("8")
    field.fill("32")
    field.press("Enter")
    expect(edited.source).to_have_value(re.compile("image_width=32"))
    method = edited.page.locator("[data-field=interpolation]")
    method.select_option("inter_area")
    expect(edited.source).to_have_value(re.compile("interpolation=inter_area"))
    method = edited.page.locator("[data-field=interpolation]")
    method.select_option("")
    expect(edited.source).not_to_have_value(re.compile("interpolation"))
    threads = edited.page.locator("[data-field=threads]")
    expect(threads).to_have_attribute("placeholder", re.compile(r"\d+ \(.+\)"))
    edited.save()
    assert path.read_text() == DOT.replace("image_width=8", "image_width=32")


def test_the_first_field_of_a_node_has_the_focus_before_the_next_key_comes(edited):
    edited.node("small").focus()
    edited.page.keyboard.press("Enter")
    assert edited.page.evaluate("document.activeElement.dataset.field") == "name"


def test_what_is_typed_into_a_field_is_saved_though_nobody_has_left_it(edited, path):
    edited.node("small").focus()
    edited.page.keyboard.press("Enter")
    field = edited.page.locator("[data-field=image_width]")
    field.fill("77")
    field.press("Control+s")
    said(edited, "saved")
    assert path.read_text() == DOT.replace("image_width=8", "image_width=77")


@pytest.mark.parametrize("text", ["", "digraph {", "no graph"])
def test_a_file_that_is_no_graph_is_mended_in_its_text(path, text):
    from playwright.sync_api import expect

    path.write_text(text)
    with editing(path) as edited:
        edited.page.keyboard.press("?")
        edited.page.get_by_role("dialog").get_by_role("button", name="Close").click()
        edited.source.fill(DOT)
        edited.page.keyboard.press("Control+s")
        said(edited, "saved")
        expect(edited.node("small")).to_be_visible()
    assert path.read_text() == DOT


def test_a_wrong_port_is_said_at_the_port_and_can_be_saved(edited, path):
    from playwright.sync_api import expect

    edited.source.fill(DOT.replace("input -> small", "input -> small:in_imag\n    small"))
    alert = edited.page.locator("[role=alert][data-alert='small:in_imag']")
    expect(alert).to_contain_text("small:in_imag, line 7")
    expect(edited.page.locator(".gutter .wrong[data-line='7']")).to_be_visible()
    expect(edited.page.locator("[data-count]")).not_to_have_text("No errors")
    edited.save()
    assert "small:in_imag" in path.read_text()


def test_a_text_that_is_no_graph_keeps_the_last_picture(edited):
    from playwright.sync_api import expect

    edited.source.fill(DOT[: DOT.index("output[")])
    expect(edited.page.locator("[data-finding]")).to_contain_text("the end of the text")
    expect(edited.node("small")).to_be_visible()
    edited.source.fill(DOT)
    expect(edited.page.get_by_text("No errors")).to_be_visible()


@pytest.mark.parametrize("press", ["Delete", "Tidy"])
def test_what_is_typed_while_an_edit_is_under_way_is_kept(edited, press):
    from playwright.sync_api import expect

    held = []

    def hold(route):
        held.append(route)

    edited.page.route("**/api/edit*", hold)
    edited.node("small").click()
    if press == "Tidy":
        edited.page.get_by_role("button", name="Tidy").click()
    else:
        edited.page.keyboard.press(press)
    edited.source.focus()
    edited.page.keyboard.press("Control+End")
    edited.page.keyboard.type("// mine")
    while not held:
        edited.page.wait_for_timeout(10)
    held[0].continue_()
    said(edited, "the text has changed in the meantime; try again")
    expect(edited.source).to_have_value(DOT + "// mine")


@pytest.mark.parametrize(
    ("event", "is_saved"),
    [
        ({"key": "\u044b", "code": "KeyS", "ctrlKey": True}, True),  # a Cyrillic keyboard
        ({"key": "\u015b", "code": "KeyS", "ctrlKey": True, "altKey": True}, False),  # AltGr+S
    ],
)
def test_other_keyboards_save_by_the_same_key_and_type_their_letters(edited, event, is_saved):
    is_taken = edited.page.evaluate(
        """given => !document.querySelector(".stage").dispatchEvent(
            new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...given }))""",
        event,
    )
    assert is_taken is is_saved
    if is_saved:
        said(edited, "saved")


def test_nodes_that_cannot_be_copied_are_not_cut(path):
    from playwright.sync_api import expect

    with editing(path, refusals=("422",)) as edited:
        body = '{"error": "DOT cannot express it"}'
        edited.page.route("**/api/copy*", lambda route: route.fulfill(status=422, body=body))
        edited.node("small").click()
        edited.page.keyboard.press("Control+x")
        said(edited, "DOT cannot express it")
        edited.page.get_by_role("button", name="Tidy").click()  # after the cut
        said(edited, "")
        expect(edited.node("small")).to_be_visible()


def test_changes_that_are_not_known_are_not_called_none(path):
    from playwright.sync_api import expect

    with editing(path, refusals=("ERR_FAILED",)) as edited:
        edited.page.route("**/api/diff*", lambda route: route.abort())
        edited.page.get_by_role("button", name="Show changes").click()
        dialog = edited.page.get_by_role("dialog")
        expect(dialog).to_contain_text("modelflow edit does not answer")
        expect(dialog).not_to_contain_text("no changes")


def test_the_search_is_closed_though_no_node_is_selected(edited):
    from playwright.sync_api import expect

    edited.page.keyboard.press("Control+f")
    edited.page.keyboard.press("Escape")
    expect(edited.page.get_by_role("search")).to_have_count(0)
    expect(edited.page.locator(".stage")).to_be_focused()


def test_undo_and_redo_give_the_same_bytes(edited):
    texts = [DOT]
    for number in range(1, 6):
        edited.node("small").click()
        field = edited.page.locator("[data-field=image_width]")
        field.fill(str(100 + number))
        field.press("Enter")
        texts.append(DOT.replace("image_width=8", f"image_width={100 + number}"))
        _has(edited, texts[-1])
    edited.node("small").focus()
    for text in reversed(texts[:-1]):
        edited.page.keyboard.press("Control+z")
        _has(edited, text)
    for text in texts[1:]:
        edited.page.keyboard.press("Control+y")
        _has(edited, text)


def _has(edited, text):
    from playwright.sync_api import expect

    expect(edited.source).to_have_value(text)


def test_nodes_are_copied_from_one_file_into_another(tmp_path):
    from playwright.sync_api import expect

    one, other = tmp_path / "one.dot", tmp_path / "other.toml"
    one.write_text(DOT)
    other.write_text('# mine\n[[node]]\nname = "small"\nflowunit = "resize"\n')
    with Editor(one) as first, Editor(other) as second, browsing() as browser:
        page = browser.page
        browser.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        browser.open(first.url)
        page.locator("[data-body=input]").click()
        page.locator("[data-body=small]").click(modifiers=["Shift"])
        page.keyboard.press("Control+c")
        expect(page.locator("[data-said]")).to_contain_text("copied 2 nodes to the clipboard")
        browser.open(second.url)
        page.locator("[data-body=small]").focus()
        page.keyboard.press("Control+v")
        expect(page.locator("[data-body=small_2]")).to_be_visible()
        page.keyboard.press("Control+s")
        expect(page.locator("[data-said]")).to_contain_text("saved")
    text = other.read_text()
    assert text.startswith('# mine\n[[node]]\nname = "small"\nflowunit = "resize"\n')
    assert "image_width = 8\n" in text
    assert 'to = "small_2"' in text


def test_a_node_that_is_dragged_stays_there_and_tidy_takes_it_back(edited, path):
    from playwright.sync_api import expect

    box = edited.node("small")
    edited.drag(box, box, by=(60, 90))
    expect(edited.source).to_have_value(re.compile(r'small\[.*, pos="-?\d+,-?\d+!"\]'))
    placed = middle(box)
    edited.save()
    edited.page.reload()
    edited.page.locator("[data-unit=resize]").wait_for()
    edited.page.get_by_role("button", name="Tidy").click()
    _has(edited, DOT)
    edited.page.keyboard.press("Control+s")
    said(edited, "saved")
    assert placed != middle(edited.node("small"))
    assert path.read_text() == DOT


def test_a_drag_that_leaves_the_picture_goes_on(edited):
    from playwright.sync_api import expect

    mouse = edited.page.mouse
    mouse.move(*middle(edited.node("small")))
    mouse.down()
    mouse.move(100, 300)  # over the palette
    mouse.move(*middle(edited.node("small")))
    mouse.move(700, 200)
    mouse.up()
    expect(edited.source).to_have_value(re.compile(r"pos="))


def test_a_wire_that_is_dropped_on_nothing_asks_for_a_unit(edited):
    from playwright.sync_api import expect

    stage = edited.page.locator(".stage").bounding_box()
    x, y = middle(edited.port("small", "out_image", "output"))
    mouse = edited.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(stage["x"] + 400, stage["y"] + stage["height"] - 30)
    mouse.up()
    dialog = edited.page.get_by_role("dialog", name="Add a unit behind small:out_image")
    expect(dialog.locator("[data-unit=file_source]")).to_have_count(0)  # has no input
    edited.page.keyboard.type("mean")
    edited.page.keyboard.press("Enter")
    expect(edited.wire("small", "mean")).to_have_count(1)


def test_a_file_that_somebody_else_changed_is_not_overwritten(path):
    with editing(path, refusals=("409", "409")) as edited:
        _change_it_from_both_sides(edited, path)


def _change_it_from_both_sides(edited, path):
    from playwright.sync_api import expect

    edited.source.fill(DOT + "// mine\n")
    path.write_text(DOT + "// theirs\n")
    edited.page.get_by_role("button", name="Save", exact=True).click()
    dialog = edited.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Another program changed photos.dot")
    expect(dialog.locator(".less")).to_have_text(["--- a/photos.dot\n", "-// theirs\n"])
    assert path.read_text() == DOT + "// theirs\n"
    dialog.get_by_role("button", name="Continue editing").click()
    expect(dialog).to_have_count(0)
    edited.page.get_by_role("button", name="Save", exact=True).click()
    edited.page.get_by_role("button", name="Overwrite the file").click()
    said(edited, "saved")
    assert path.read_text() == DOT + "// mine\n"


def test_lines_that_end_as_windows_has_it_stay_so(tmp_path):
    path = tmp_path / "windows.dot"
    path.write_bytes(DOT.replace("\n", "\r\n").encode())
    with editing(path) as edited:
        edited.source.focus()
        edited.page.keyboard.press("Control+End")
        edited.page.keyboard.type("// end\n")
        edited.page.keyboard.press("Control+s")
        said(edited, "saved")
    assert path.read_bytes() == (DOT + "// end\n").replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("name", "node", "key", "value", "changed"),
    [
        ("image_classify.toml", "img_resize", "image_width", "300", "1\t1"),
        ("video_boxes.toml", "shrink", "threads", "3", "1\t1"),
        ("native.toml", "small", "image_width", "300", "1\t1"),
    ],
)
def test_saving_changes_the_lines_that_were_edited(tmp_path, name, node, key, value, changed):
    from playwright.sync_api import expect

    folder = tmp_path / "graphs"
    shutil.copytree(ROOT / "graphs", folder)
    path = folder / name
    if not path.exists():
        path.write_text(
            '# native\n[[node]]\nname = "small"\nflowunit = "resize"\n'
            "image_width = 8 # pixels\nimage_height = 8\n"
        )
    before = path.read_text()
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "before"], check=True)
    with editing(path) as edited:
        expect(edited.source).to_have_value(before)
        edited.node(node).focus()
        edited.page.keyboard.press("Enter")
        field = edited.page.locator(f"[data-field={key}]")
        field.fill(value)
        field.press("Enter")
        expect(edited.page.locator(".dirty:not(.hidden)")).to_be_visible()
        edited.save()
    shown = subprocess.run([*git, "diff", "--numstat"], check=True, capture_output=True, text=True)
    assert shown.stdout == f"{changed}\t{name}\n"


def test_sixty_nodes_are_dragged_smoothly(tmp_path):
    path = tmp_path / "many.dot"
    nodes = [f"    n{k}[flowunit=resize, image_width=8, image_height=8]" for k in range(60)]
    edges = [f"    n{k // 3} -> n{k}" for k in range(1, 60)]
    path.write_text("\n".join(["digraph many {", *nodes, *edges, "}", ""]))
    with editing(path) as edited:
        x, y = middle(edited.node("n0"))
        edited.page.evaluate(
            "() => { window.frames_ = 0; const count = () => { window.frames_++;"
            " requestAnimationFrame(count); }; requestAnimationFrame(count); }"
        )
        mouse = edited.page.mouse
        mouse.move(x, y)
        mouse.down()
        begin = edited.page.evaluate("window.frames_")
        for step in range(STEPS):
            mouse.move(x + step, y + step / 2)
        end = edited.page.evaluate("window.frames_")
        mouse.up()
    # A frame for every third move at least, so the picture keeps up with the mouse.
    assert (end - begin) * 3 >= STEPS


def test_no_request_leaves_this_machine(path):
    from playwright.sync_api import expect

    with Editor(path) as editor, browsing() as browser:
        asked = []
        browser.page.on("request", lambda request: asked.append(request.url))
        browser.open(editor.url)
        expect(browser.page.locator("[data-unit=resize]")).to_be_visible()
        home = editor.url.partition("?")[0]
    assert asked
    assert all(url.startswith(home) for url in asked)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(path, scheme):
    from playwright.sync_api import expect

    path.write_text(DOT.replace("input -> small", "input -> small:wrong\n small"))
    with editing(path, color_scheme=scheme) as edited:
        edited.node("small").click()
        expect(edited.page.locator("[data-field=image_width]")).to_be_visible()
        assert serious(edited.page) == ""
