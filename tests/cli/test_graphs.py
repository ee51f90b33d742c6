"""``modelflow graphs``."""

import json

from modelflow.starters.ready import ready_graphs


def test_every_ready_graph_is_listed_with_what_it_does(modelflow_here):
    done = modelflow_here("graphs")
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(names) == len(list(ready_graphs().glob("*.toml")))
    assert "digits" in names
    assert "Classifies handwritten digits. Prints class and score" in done.stdout


def test_programs_get_their_files_too(modelflow_here):
    rows = json.loads(modelflow_here("graphs", "--json").stdout)
    assert {row["path"] for row in rows} == set(map(str, ready_graphs().glob("*.toml")))
    assert all(row["description"] for row in rows)
