"""``modelflow.flowunit`` is the decorator and the package of that name, whatever comes first."""

import sys

import pytest

from tests import programs


@pytest.mark.parametrize(
    "first",
    ["modelflow.flowunit", "modelflow.Flow", "import modelflow.flowunit.registry as registry"],
)
def test_the_name_works_in_every_order_of_imports(first):
    program = f"""
import modelflow
{first}
from modelflow import flowunit
assert flowunit is modelflow.flowunit

@modelflow.flowunit
def bare(value):
    return value

@flowunit(name="named")
def other(value):
    return value

import modelflow.flowunit.registry as registry
import modelflow.flowunit.folder
from tests import programs
assert bare.SPEC.name == "bare" and other.SPEC.name == "named"
assert registry.Registry(skip_default=True).find("named") is other.SPEC
assert modelflow.flowunit.folder.read_folder
"""
    programs.run([sys.executable, "-c", program], check=True)
