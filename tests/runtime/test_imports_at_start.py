"""Tests that the starting thread imports the modules of the units, in the graph's order."""

import sys
import textwrap

import pytest

from modelflow import Flow
from modelflow.errors import FlowFailed
from tests import programs
from tests.registry.test_folder_modules import unit

PROGRAM = """
import sys, threading
import modelflow

threads = []

class Watch:  # notes the thread that imports OpenCV
    def find_spec(self, name, path=None, target=None):
        if name == "cv2":
            threads.append(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watch())
flow = modelflow.Flow({graph!r})
assert "cv2" not in sys.modules
with flow:
    assert {inserted!r} in sys.path, sys.path
assert threads and all(threads), threads
"""


@pytest.mark.parametrize(
    "image", ["resize", "image_decoder", "mean", "image_encoder", "color_convert"]
)
def test_opencv_is_imported_before_a_unit_opens_that_changes_the_search_path(tmp_path, image):
    code = "import sys\n"
    folder = unit(tmp_path, "inserts", code, "return data")
    text = (folder / "inserts.py").read_text()
    inserted = str(tmp_path / "more")
    text += f"    def open(self, config):\n        sys.path.insert(0, {inserted!r})\n"
    (folder / "inserts.py").write_text(text)
    options = {
        "resize": "image_width=8 image_height=8",
        "mean": 'mean=\\"1,2,3\\"',
        "color_convert": "out_pix_fmt=gray",
    }.get(image, "")
    graph = (
        f'driver = {{dir = ["{tmp_path}"]}}\n[graph]\ngraphconf = "digraph {{ i[type=input] '
        f"inserts[flowunit=inserts] image[flowunit={image} {options}] o[type=output] p[type=output]"
        f' i -> image -> o i -> inserts -> p }}"'
    )
    program = textwrap.dedent(PROGRAM).format(graph=graph, inserted=inserted)
    done = programs.run([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr


def test_modules_are_imported_in_the_graphs_order_by_the_thread_that_starts_the_flow(tmp_path):
    note = "import builtins, threading\nbuiltins.noted.append((__name__, threading.get_ident()))"
    for name in ("zeta_h2", "alpha_h2", "mid_h2"):
        unit(tmp_path, name, note, "return data")
    chain = "i -> zeta_h2 -> alpha_h2 -> mid_h2 -> o"
    nodes = " ".join(f"{name}[flowunit={name} threads=3]" for name in chain.split(" -> ")[1:-1])
    graph = f"digraph {{ i[type=input] {nodes} o[type=output] {chain} }}"
    program = textwrap.dedent(f"""
        import builtins, threading
        builtins.noted = []
        import modelflow
        text = {f'driver = {{dir = ["{tmp_path}"]}}'!r} + "\\n[graph]\\ngraphconf = '" + {graph!r}
        with modelflow.Flow(text + "'"):
            main = threading.main_thread().ident
            names = ["zeta_h2", "alpha_h2", "mid_h2"]
            assert builtins.noted == [(name, main) for name in names], builtins.noted
    """)
    done = programs.run([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", [0, None])
def test_every_module_that_cannot_be_imported_is_named(tmp_path, threads):
    for name in ("bad_h2", "worse_h2"):
        unit(tmp_path, name, "import no_such_module_h2", "return data")
    text = f'driver = {{dir = ["{tmp_path}"]}}\n[graph]\ngraphconf = "digraph {{ i[type=input] '
    text += "bad_h2[flowunit=bad_h2] worse_h2[flowunit=worse_h2] o[type=output] "
    flow = Flow(text + 'i -> bad_h2 -> worse_h2 -> o }"', threads=threads)
    with pytest.raises(FlowFailed) as caught:
        flow.start()
    for name in ("bad_h2", "worse_h2"):
        assert f"node '{name}'" in str(caught.value)
    assert "open: ModuleNotFoundError: No module named 'no_such_module_h2'" in str(caught.value)
