"""The model behind ``modelflow ray serve`` on a cluster of its own; the argument is the port."""

import sys
from pathlib import Path

import ray

from modelflow.cli.main import main

GRAPH = Path(__file__).resolve().parent.parent / "serving_graphs" / "mean.toml"

if __name__ == "__main__":
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    where = ["--http", f"127.0.0.1:{sys.argv[1]}", "--grpc", "off"]
    main(["ray", "serve", str(GRAPH), "--address", "auto", *where])
