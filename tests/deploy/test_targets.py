"""Tests of the commands to run next."""

import shlex

import pytest

from modelflow.deploy.targets import TARGETS
from tests.deploy.applications import application


def said(target, **changes):
    return TARGETS[target].next(application(**changes)).splitlines()


def test_the_container_is_started_with_its_variables():
    _, run, _ = said("docker", settings={"A": "it's $HOME", "B": ""})
    words = shlex.split(run)
    assert words[-5:] == ["-e", "A=it's $HOME", "-e", "B=", "image-classify:4f5e"]


@pytest.mark.parametrize("target", ["kubernetes", "helm"])
def test_an_image_without_a_registry_is_told_of(target):
    assert any(line.startswith("# image-classify:4f5e names no registry") for line in said(target))
    assert not any(line.startswith("#") for line in said(target, image="registry/digits:1"))
