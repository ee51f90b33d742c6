"""Measures the cost of imports and commands (P5), and the processor time of an idle flow.

python benchmarks/import_time.py [--quick]

NumPy's threads wait actively for work after the import. A program that ends at once spares most of
that time. Its figure is therefore lower than the share of NumPy in longer programs.
`from modelflow import Flow` imports NumPy only when a flow is made: see the row "Flow, started".
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from measure import medians, print_table

import modelflow

HEAVY = (
    *("numpy", "cv2", "tensorflow", "torch", "yaml", "tomlkit", "click", "rich", "asyncio", "ssl"),
    *("http.client", "importlib.metadata", "multiprocessing", "hashlib"),
)
GRAPH = """digraph {
    input [type=input]
    decode [flowunit=image_decoder]
    resize [image_width=224, image_height=224]
    color [flowunit=color_convert, out_pix_fmt=rgb]
    mean [mean="124,117,104"]
    encode [flowunit=image_encoder]
    output [type=output]
    input -> decode -> resize -> color -> mean -> encode -> output
}"""


def processor_ms(arguments: list[str]) -> float:
    """Returns the processor time of a fresh interpreter, user and system, in milliseconds."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def imported(arguments: list[str]) -> list[str]:
    """Returns the modules that a fresh interpreter imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return [line.rpartition("|")[2].strip() for line in lines]


def idle_share(wait: float) -> float:
    """Returns the percentage of a processor that a started flow uses while nothing is sent."""
    text = "digraph { input [type=input] resize [width=8, height=8] output [type=output] "
    with modelflow.Flow(text + "input -> resize -> output }"):
        threading.Event().wait(wait)  # for the end of the work that starting a flow causes
        before = time.process_time()
        threading.Event().wait(wait)
        return (time.process_time() - before) / wait * 100


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round: to see that it runs")
    quick = parser.parse_args().quick
    rounds = 1 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder, "graph.dot")
        graph.write_text(GRAPH)
        statements = (
            "import numpy",
            "import modelflow",
            "from modelflow import Flow",
            "from modelflow import Flow, Model, StreamIO",
            "import modelflow.cli.main",
        )
        cases = {text: ["-c", text] for text in statements}
        cases["modelflow --help"] = ["-m", "modelflow", "--help"]
        cases["modelflow check (7 nodes)"] = ["-m", "modelflow", "check", str(graph)]
        start = f"from modelflow import Flow\nwith Flow({str(graph)!r}): pass"
        cases["Flow, started (7 nodes)"] = ["-c", start]
        found = medians({name: partial(processor_ms, cases[name]) for name in cases}, rounds)
        modules = {name: imported(cases[name]) for name in cases}
    print_table(
        "processor time of fresh interpreters, medians of alternating rounds",
        ("statement or command", "ms", "/numpy", "our modules", "all modules", "heavy packages"),
        [
            (
                name,
                found[name],
                found[name] / found["import numpy"],
                sum(module.partition(".")[0] in ("modelflow", "flowunits") for module in names),
                len(names),
                ", ".join(heavy for heavy in HEAVY if heavy in names) or "none",
            )
            for name, names in modules.items()
        ],
    )
    print_table(
        "an idle flow", ("what", "figure"), [("% of a processor", idle_share(0.2 if quick else 3))]
    )


if __name__ == "__main__":
    main()
