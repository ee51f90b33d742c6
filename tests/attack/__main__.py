"""The attack by hand: ``python -m tests.attack --moments 1000 --ready 1000 --programs 100``.

``python -m tests.attack --serve 30 --mode workers`` attacks a server for 30 minutes instead.
"""

import argparse
import compileall
import sys
import tempfile
from pathlib import Path

from tests.attack.flows import attack_flows
from tests.attack.graphs_run import attack_programs
from tests.attack.ready import attack_ready
from tests.attack.servers import MODES, Attack, Found


def _print_round(seen: Found) -> None:
    counts = dict(seen.answers)  # clients go on
    amiss = f"{len(seen.wrong)} wrong, {len(seen.late)} late"
    print(f"{counts}; {amiss}; rates {seen.rates}", flush=True)  # noqa: T201


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--moments", type=int, default=1000, help="random graphs that are ended")
parser.add_argument("--ready", type=int, default=1000, help="runs of each ready graph, in flows")
parser.add_argument("--programs", type=int, default=100, help="programs that are ended")
parser.add_argument("--serve", type=float, default=0.0, help="minutes that a server is attacked")
parser.add_argument("--mode", choices=MODES, default="one", help="which server")
parser.add_argument("--pause-ms", type=float, default=0.0, help="of each client of a server")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
if options.serve:
    compileall.compile_dir("modelflow", quiet=1)  # as pip does; many processes are started
    with tempfile.TemporaryDirectory() as folder:
        pause = options.pause_ms / 1e3
        attack = Attack(options.mode, options.seed, Path(folder), pause)
        found = attack.run(60 * options.serve, _print_round)
    for name, value in vars(found).items():
        print(f"{name}: {value}")  # noqa: T201
    problems = found.problems()
    print(*problems or ["nothing amiss"], sep="\n")  # noqa: T201
    sys.exit(bool(problems))
if options.moments:
    counts, longest = attack_flows(options.moments, options.seed)
    print(f"flows: {counts}; the longest end took {longest:.2f} s", flush=True)  # noqa: T201
if options.ready:
    with tempfile.TemporaryDirectory() as folder:
        for name, found in attack_ready(options.ready, options.seed, folder).items():
            ways = ", ".join(f"{way} {count}" for way, count in sorted(found["counts"].items()))
            print(  # noqa: T201
                f"{name:18} {sum(found['counts'].values())} moments: {ways}; a whole run "
                f"{found['whole']:.2f} s, the longest end {found['longest']:.2f} s",
                flush=True,
            )
if options.programs:
    with tempfile.TemporaryDirectory() as folder:
        codes, longest = attack_programs(options.programs, options.seed, folder)
    for (name, number, code), count in sorted(codes.items()):
        print(f"{name:18} {number:8} exit code {code:3}: {count}")  # noqa: T201
    print(f"programs: the longest end took {longest:.2f} s")  # noqa: T201
