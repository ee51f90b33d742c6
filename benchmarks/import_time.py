"""Measures the time of ``import modelflow`` (P5), and the processor time of an idle flow.

python benchmarks/import_time.py [--quick]
"""

import argparse
import subprocess
import sys
import threading
import time
from functools import partial

from measure import medians, print_table

import modelflow

HEAVY = ("numpy", "cv2", "tensorflow", "torch", "yaml", "tomlkit", "click", "rich")


def seconds(statement: str) -> float:
    """Returns the seconds that a fresh interpreter takes for ``statement``."""
    program = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def loaded(statement: str) -> list[str]:
    """Returns which heavy packages ``statement`` loads."""
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return [name for name in HEAVY if name in done.stdout.split()]


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
    statements = (
        "import numpy",
        "import modelflow",
        "from modelflow import Flow, Model, StreamIO",
        "import modelflow.cli.main",
    )
    found = medians({text: partial(seconds, text) for text in statements}, 1 if quick else 15)
    base = found["import numpy"]
    print_table(
        "fresh interpreters, in turn",
        ("statement", "ms", "/numpy", "heavy packages loaded"),
        [(t, found[t] * 1e3, found[t] / base, ", ".join(loaded(t)) or "none") for t in statements],
    )
    print_table(
        "an idle flow", ("what", "figure"), [("% of a processor", idle_share(0.2 if quick else 3))]
    )


if __name__ == "__main__":
    main()
