"""Tests of units in dynamic libraries, which a compiler builds here."""

import dataclasses
import sys
import threading

import numpy as np
import pytest

import modelflow
from modelflow.errors import ConfigError
from modelflow.registry.native import include_folder
from modelflow.testing import check_flow_unit, read_unit, run_unit
from modelflow.unit.option import Option
from tests import programs

TOML = """
[base]
name = "pair"
description = "Adds."
type = "c++"
entry = "libpair.so"
{base}
[config]
factor = 2.0
{ports}
"""
PORTS = """
[input.input1]
name = "a"
description = "an array"
[input.input2]
name = "b"
description = "an array"
type = "float"
[output.output1]
name = "sum"
description = "an array"
[output.output2]
name = "size"
description = "an array"
"""
# Outputs: sum is a + factor * b (float32), and size is the number of values (int64, ()). Refuses
# other shapes, and fails rows whose first value is negative.
CODE = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "modelflow_unit.h"
static int64_t size(const modelflow_array &a) {
    int64_t n = 1;
    for (int i = 0; i < a.ndim; ++i) n *= a.shape[i];
    return n;
}
int32_t modelflow_abi(void) { return ABI; }
void *modelflow_open(const char *options, modelflow_error *error) {
    const char *found = std::strstr(options, "factor\\": ");
    double factor = std::strtod(found + 9, nullptr);
    if (factor == 0) { std::strcpy(error->message, "factor is 0"); return nullptr; }
    return new double(factor);
}
void modelflow_describe(void *, const modelflow_array *in, modelflow_array *out,
                        modelflow_error *e) {
    if (in[0].dtype != MODELFLOW_FLOAT32 || size(in[0]) != size(in[1])) {
        std::snprintf(e->message, sizeof e->message, "shapes differ: %lld and %lld",
                      (long long)size(in[0]), (long long)size(in[1]));
        return;
    }
    out[0] = in[0];
    out[1].dtype = SIZE_TYPE;
    out[1].ndim = 0;
}
void modelflow_process(void *unit, int64_t rows, const modelflow_array *in, modelflow_array *out,
                       modelflow_error *errors) {
    for (int64_t row = 0; row < rows; ++row) {
        const float *a = (const float *)in[2 * row].data, *b = (const float *)in[2 * row + 1].data;
        float *sum = (float *)out[2 * row].data;
        int64_t n = size(in[2 * row]);
        if (n && a[0] < 0) { std::strcpy(errors[row].message, "a is negative"); continue; }
        for (int64_t i = 0; i < n; ++i) sum[i] = a[i] + (float)*(double *)unit * b[i];
        *(int64_t *)out[2 * row + 1].data = n;
    }
}
void modelflow_close(void *unit) { delete (double *)unit; }
"""


def build(folder, code=CODE, abi=1, size_type="MODELFLOW_INT64", base="", ports=PORTS):
    folder.mkdir(exist_ok=True)
    (folder / "pair.cpp").write_text(code)
    (folder / "pair.toml").write_text(TOML.format(base=base, ports=ports))
    flags = [f"-DABI={abi}", f"-DSIZE_TYPE={size_type}", f"-I{include_folder()}"]
    command = ["c++", "-std=c++17", "-shared", "-fPIC", *flags, "-o", "libpair.so", "pair.cpp"]
    programs.run(command, cwd=folder, check=True)
    return folder / "pair.toml"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return read_unit(build(tmp_path_factory.mktemp("native")))


def floats(*values):
    return np.array(values, np.float32)


def test_batches_go_in_and_come_out(pair):
    a = [floats(1, 2), floats(3), np.zeros((2, 2), np.float32)]
    b = [floats(10, 20), floats(30), np.ones((2, 2), np.float32)]
    found = run_unit(pair, {"a": a, "b": b}, factor=0.5)
    assert [x.data.tolist() for x in found["sum"]] == [[6, 12], [18], [[0.5, 0.5], [0.5, 0.5]]]
    assert [x.data.tolist() for x in found["size"]] == [2, 1, 4]
    assert found["sum"][2].data.dtype == np.float32


def test_the_contract_of_units_holds(pair):
    a = [floats(1, 2), floats(3), floats(4, 5)]
    documented = (Option("factor", float, 2.0, "The factor."),)
    spec = dataclasses.replace(pair, options=documented, accepts_any_option=False)
    check_flow_unit(spec, {"a": a, "b": [x * 2 for x in a]})


def test_rows_that_do_not_fit_fail_alone(pair):
    a = [floats(1), floats(-1), "text", floats(1, 2), None, np.array(["x"]), floats(5)]
    b = [floats(1), floats(1), floats(1), floats(1), floats(1), floats(1), np.ones(1)]
    found = run_unit(pair, {"a": [*a, floats(7)], "b": [*b, floats(1)]})["sum"]
    expected = [
        "",
        "a is negative",
        "shapes differ: 4 and 1",
        "shapes differ: 2 and 1",
        "a: got NoneType; expected an array of numbers, bytes or text",
        "a: got a <U1 array",
        "b: got a float64 array; expected float32",
        "",
    ]
    for text, buffer in zip(expected, found, strict=True):
        assert text in buffer.get_error_msg()
        assert bool(text) == buffer.has_error()
    assert found[-1].data.tolist() == [9]


def test_options_that_the_library_refuses_are_errors_of_open(pair):
    with pytest.raises(ConfigError, match="modelflow_open: factor is 0"):
        run_unit(pair, {"a": [floats(1)], "b": [floats(1)]}, factor=0)


def test_a_library_of_another_version_is_refused(tmp_path):
    spec = read_unit(build(tmp_path, abi=7))
    with pytest.raises(ConfigError, match=r"built with version 7 .* expected 1: build it again"):
        run_unit(spec, {"a": [floats(1)], "b": [floats(1)]})


def test_a_library_that_describes_nonsense_is_caught_before_anything_is_written(tmp_path):
    spec = read_unit(build(tmp_path, size_type="77"))
    (buffer,) = run_unit(spec, {"a": [floats(1)], "b": [floats(1)]})["sum"]
    assert "says of the output 'size': dtype 77" in buffer.get_error_msg()


def test_a_library_without_the_functions_is_refused(tmp_path):
    spec = read_unit(build(tmp_path, code="int nothing;"))
    with pytest.raises(ConfigError, match=r'has no modelflow_abi, .*declared extern "C"'):
        run_unit(spec, {"a": [floats(1)], "b": [floats(1)]})
    spec = read_unit(build(tmp_path / "other"))
    library = tmp_path / "other" / "libpair.so"
    library.write_text("no library")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        run_unit(spec, {"a": [floats(1)], "b": [floats(1)]})
    library.unlink()
    with pytest.raises(ConfigError, match=r"there is no such library; build it \(make"):
        run_unit(spec, {"a": [floats(1)], "b": [floats(1)]})


@pytest.mark.parametrize(
    ("base", "ports", "what"),
    [
        ("expand = true", PORTS, "units of type c\\+\\+ are normal ones"),
        ("", PORTS.partition("[output")[0], r"expected an \[input.input1\] and an \[output"),
        ("", PORTS.replace('"float"', '"complex64"'), "type 'complex64'; expected one of uint8"),
    ],
)
def test_unit_files_that_do_not_fit_say_why(tmp_path, base, ports, what):
    path = build(tmp_path, base=base, ports=ports)
    with pytest.raises(ConfigError, match=what):
        run_unit(read_unit(path), {"a": [floats(1)], "b": [floats(1)]})


def test_other_threads_run_while_a_library_works(tmp_path):
    """Tests a library that waits for a flag of another Python thread, without the lock."""
    begin = "for (int64_t row = 0;"
    code = CODE.replace(begin, "while (!*(volatile float *)in[1].data) {} " + begin)
    spec = read_unit(build(tmp_path, code=code))
    flag = np.zeros(1, np.float32)
    unit = spec.create("cpu")
    unit.open(spec.configure({}))
    context = modelflow.Context(
        {"a": [modelflow.Buffer(floats(1))], "b": [modelflow.Buffer(flag)]}, {"sum": [], "size": []}
    )
    thread = threading.Thread(target=unit.process, args=(context,))
    thread.start()
    flag[0] = 1
    thread.join()
    unit.close()
    assert context.outputs["sum"][0].tolist() == [3]


def test_the_command_line_says_where_the_header_is():
    command = [sys.executable, "-m", "modelflow", "version", "--include"]
    folder = programs.run(command, check=True).stdout.strip()
    assert folder == str(include_folder())
    assert (include_folder() / "modelflow_unit.h").is_file()
