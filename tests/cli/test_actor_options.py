"""Tests of the options that place a graph without placements."""

import click
import pytest
from click.testing import CliRunner

from modelflow.cli.ray.options import ACTOR_OPTIONS, actor_options, placement_of
from modelflow.config.placement import PlacementConfig


def placement(*words):
    """Returns the placement that options mean; a wrong use raises its message."""
    found = []

    @click.command()
    @actor_options
    def command(**given):
        assert given.keys() == ACTOR_OPTIONS.keys()
        found.append(placement_of(given))

    done = CliRunner().invoke(command, words)
    if done.exit_code:
        raise ValueError(done.output)
    return found[0]


def test_each_takes_one_processor_unless_it_is_said_otherwise():
    assert placement() == PlacementConfig("ray run", resources={"CPU": 1.0})
    assert placement("--cpus", "0").resources == {}


def test_all_that_a_placement_says_can_be_said():
    words = "--replicas 2..8 --cpus 2 --gpus 0.5 --memory 8GiB --resources disk=3 --label zone=a"
    assert placement(*words.split(), "--timeout", "1.5", "--in-flight", "2") == PlacementConfig(
        "ray run",
        (2, 8),
        {"CPU": 2.0, "GPU": 0.5, "memory": 8 * 2**30, "disk": 3.0},
        {"zone": "a"},
        in_flight=2,
        timeout=1.5,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--replicas 3..1", "--replicas: got '3..1'; expected a number from 1 to 10000, or a"),
        ("--cpus nan", "no finite number"),
        ("--timeout inf", "no finite number"),
        ("--timeout 0", "0"),
        ("--memory 16", "got '16'; expected a size with its unit, as in 8GiB"),
        ("--memory 0GiB", "got '0GiB'; expected a size with its unit"),
        ("--resources CPU=2", "--resources: got CPU=2; expected --cpus 2"),
        ("--resources memory=3GiB", "--resources: got memory=3GiB; expected --memory 3GiB"),
        ("--resources disk", "--resources: got 'disk'; expected NAME=VALUE"),
        ("--resources disk=much", "--resources: disk: 'much' is not a valid"),
        ("--resources disk=-1", "--resources: disk: -1.0 is not in the range"),
        ("--resources disk=1 --resources disk=2", "--resources: 'disk' is given twice"),
        ("--label zone=", "--label: got 'zone='; expected NAME=VALUE"),
        ("--in-flight 0", "0 is not in the range"),
    ],
)
def test_what_is_of_another_form_is_told_with_the_option(words, said):
    with pytest.raises(ValueError, match="Error") as caught:
        placement(*words.split())
    assert said in str(caught.value)
