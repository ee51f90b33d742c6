"""Tests of the page that describes a server, and of its script."""

import base64
import hashlib
import json
import re
import shutil
import subprocess

import pytest

from tests.browser import browsing, needs_browser
from tests.serve.clients import ask, send, served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("infer s3cret\nmetrics other")
    with served(key_file=path) as running:
        yield running


@pytest.fixture(scope="module")
def page(server):
    status, headers, body = send(server, "GET", "/docs")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    return headers, body.decode()


def test_the_page_needs_no_key_and_holds_nothing_of_the_server(page):
    assert "/v1/models" not in page[1]


def test_what_is_described_needs_a_key(server):
    assert ask(server, "/openapi.json")[0] == 401
    assert ask(server, "/openapi.json", headers={"x-api-key": "other"})[0] == 403
    status, found, _ = ask(server, "/openapi.json", headers={"x-api-key": "s3cret"})
    assert (status, found["security"]) == (200, [{"bearer": []}, {"key": []}])


def test_the_page_may_do_nothing_but_ask_the_server(page):
    headers, text = page
    rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]
    for tag in ("script", "style"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert not re.findall(r"https?://|<link|src=|\sstyle=|\son\w+=|innerHTML|eval\(", text)


PLAY = r"""
const [, , address] = process.argv;
class Element {
  constructor(tag) {
    Object.assign(this, { tag, children: [], listeners: {}, value: "", textContent: "" });
  }
  append(...more) { this.children.push(...more); }
  replaceChildren(...more) { this.children = more; }
  setAttribute() {}
  addEventListener(name, call) { this.listeners[name] = call; }
  *all() { yield this; for (const child of this.children) yield* child.all(); }
}
const places = {};
for (const name of ["key", "state", "about", "operations", "entry"]) {
  places[name] = new Element(name);
}
globalThis.document = {
  getElementById: (name) => places[name],
  createElement: (tag) => new Element(tag),
};
const plain = globalThis.fetch;
globalThis.fetch = (path, options) => plain(address + path, options);
const rest = () => new Promise((done) => setTimeout(done, 20));
async function until(check) { while (!check()) await rest(); }
async function play() {
  await until(() => places.state.textContent);
  console.log(places.state.textContent);
  places.key.value = "s3cret";
  places.entry.listeners.submit({ preventDefault() {} });
  await until(() => places.operations.children.length);
  const all = [...places.operations.all()];
  const detail = all.filter((one) => one.tag === "details").find((one) =>
    [...one.all()].some((inner) => inner.textContent === "/v1/models/m:predict"));
  const inside = [...detail.all()];
  inside.find((one) => one.tag === "button").listeners.click();
  const shown = inside.find((one) => one.tag === "pre");
  await until(() => shown.textContent);
  console.log(JSON.stringify(shown.textContent));
}
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_asks_with_the_key_and_shows_the_answer(server, page, tmp_path):
    """Runs the page's script in node, with a stand-in for the used parts of the page."""
    (script,) = re.findall(r"<script>(.*?)</script>", page[1], re.DOTALL)
    program = tmp_path / "page.js"
    program.write_text(f"{PLAY}\n{{{script}}}\nplay();")
    done = subprocess.run(
        ["node", program, server.address], capture_output=True, text=True, timeout=60, check=True
    )
    assert (
        done.stdout == 'An API key is needed.\n"200\\n{\\n \\"predictions\\": [\\n  0\\n ]\\n}"\n'
    )


@needs_browser
def test_a_browser_shows_the_page_and_tries_a_call(server):
    """Runs with the page's own content security policy."""
    with browsing() as browser:
        browser.open(f"{server.address}/docs")
        browser.type("//input[@id='key']", "s3cret")
        browser.click("//form[@id='entry']//button")
        browser.until("return document.querySelectorAll('#operations details').length")
        call = "//details[.//*[text()='/v1/models/m:predict']]"
        browser.click(f"{call}/summary")
        browser.click(f"{call}//button[text()='Send']")
        answer = browser.until(
            "return [...document.querySelectorAll('#operations details[open] pre')]"
            ".map((one) => one.textContent).find((text) => text.startsWith('200'))"
        )
        assert json.loads(answer.partition("\n")[2]) == {"predictions": [0]}
