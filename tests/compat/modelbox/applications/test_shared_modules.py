"""Applications whose units share a module with state, and unpickle its classes."""

import textwrap

import pytest

from tests import programs
from tests.compat.modelbox.applications.folders import started, write_graph, write_unit

# -- an application that tracks: one unit numbers objects, another counts the objects -------------

TRACKS = """
import threading

_lock = threading.Lock()
cache = {}


class Track(object):
    def __init__(self, number, label):
        self.number = number
        self.label = label

    def __str__(self):
        return "%s#%d" % (self.label, self.number)


def track_of(label):
    with _lock:
        if label not in cache:
            cache[label] = Track(len(cache) + 1, label)
        return cache[label]
"""
ASSIGN = """
import pickle
import tracks


class AssignFlowUnit(modelbox.FlowUnit):
    def open(self, config):
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def process(self, data_context):
        for buf in data_context.input("in_label"):
            track = tracks.track_of(buf.as_object())
            out = modelbox.Buffer(self.get_bind_device(), buf.as_object())
            out.set("track", pickle.dumps(track).hex())
            data_context.output("out_label").push_back(out)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
REPORT = """
import importlib
import pickle


class ReportFlowUnit(modelbox.FlowUnit):
    def open(self, config):
        self.tracks = importlib.import_module("tracks")
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def process(self, data_context):
        from tracks import Track
        for buf in data_context.input("in_label"):
            track = pickle.loads(bytes.fromhex(buf.get("track")))
            assert isinstance(track, Track)
            known = self.tracks.cache[buf.as_object()]
            assert known.number == track.number
            data_context.output("out_text").push_back(
                modelbox.Buffer(self.get_bind_device(), str(track)))
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
TRACKING = """
    input1[type=input, flowunit=input, device=cpu, deviceid=0, label="<input> | <output>"]
    assign[type=flowunit, flowunit=assign, device=cpu, deviceid=0, label="<in_label> | <out_label>"]
    report[type=flowunit, flowunit=report, device=cpu, deviceid=0, label="<in_label> | <out_text>"]
    output1[type=output, flowunit=output, device=cpu, deviceid=0, label="<input> | <output>"]
    input1:input -> assign:in_label
    assign:out_label -> report:in_label
    report:out_text -> output1:output
"""

# -- an application that classifies: a model of its own is unpickled, statistics are shared --------

NEAREST = """
class Nearest:
    def __init__(self, centers):
        self.centers = centers

    def predict(self, values):
        def distance(label):
            return sum((a - b) ** 2 for a, b in zip(self.centers[label], values))
        return min(sorted(self.centers), key=distance)
"""
STATISTICS = "counts = {}\n"
CLASSIFY = """
import json
import os
import pickle
import statistics_of_labels as statistics


class ClassifyFlowUnit(modelbox.FlowUnit):
    def open(self, config):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.pkl")
        with open(path, "rb") as file:
            self.model = pickle.load(file)
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def process(self, data_context):
        for buf in data_context.input("in_values"):
            label = self.model.predict(json.loads(buf.as_object()))
            statistics.counts[label] = statistics.counts.get(label, 0) + 1
            data_context.output("out_label").push_back(
                modelbox.Buffer(self.get_bind_device(), label))
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
SUMMARY = """
try:
    import statistics_of_labels as statistics
except ImportError:
    statistics = None


class SummaryFlowUnit(modelbox.FlowUnit):
    def process(self, data_context):
        for buf in data_context.input("in_label"):
            label = buf.as_object()
            seen = statistics.counts[label] >= 1 if statistics else "no statistics"
            data_context.output("out_text").push_back(
                modelbox.Buffer(self.get_bind_device(), "%s %s" % (label, seen)))
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def close(self):
        with open({path!r}, "w") as file:
            file.write(str(sorted(statistics.counts.items())))
        return modelbox.Status.StatusCode.STATUS_SUCCESS
"""
CLASSIFYING = """
    input1[type=input, flowunit=input, device=cpu, deviceid=0]
    summary[type=flowunit, flowunit=summary, device=cpu, deviceid=0]
    classify[type=flowunit, flowunit=classify, device=cpu, deviceid=0]
    output1[type=output, flowunit=output, device=cpu, deviceid=0]
    input1:input -> classify:in_values
    classify:out_label -> summary:in_label
    summary:out_text -> output1:output
"""
CENTERS = {"far": [10, 10], "left": [-3, 0], "near": [0, 0]}


def results(path, texts):
    flow = started(path)
    stream = flow.create_stream_io()
    for text in texts:
        assert stream.send("input1", text)
    stream.close_input()
    found = []
    while (buffer := stream.recv("output1")) is not None:
        assert not buffer.has_error(), buffer.get_error_msg()
        found.append(buffer.as_object())
    flow.stop()
    return found


@pytest.mark.parametrize("order", [("assign", "report"), ("report", "assign")])
def test_two_units_share_a_cache_in_a_module_beside_one_of_them(tmp_path, order):
    units = tmp_path / "flowunit"
    # Each case has its own module name, because a process loads a second application's `tracks`
    # under another name.
    module = f"tracks_beside_{order[0]}"
    assign, report = (code.replace("tracks", module) for code in (ASSIGN, REPORT))
    write_unit(units, "assign", "AssignFlowUnit", assign, ["in_label"], ["out_label"], stream=True)
    write_unit(units, "report", "ReportFlowUnit", report, ["in_label"], ["out_text"])
    (units / order[0] / f"{module}.py").write_text(TRACKS)
    labels = ["car", "bus", "car", "dog", "bus", "car"]
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels), 1)}
    expected = [f"{label}#{numbers[label]}" for label in labels]
    assert results(write_graph(tmp_path, TRACKING), labels) == expected


def test_a_model_is_unpickled_and_two_units_share_statistics(tmp_path):
    units, counted = tmp_path / "flowunit", tmp_path / "counted"
    folder = units / "classify"
    write_unit(
        units, "classify", "ClassifyFlowUnit", CLASSIFY, ["in_values"], ["out_label"], stream=True
    )
    summary = SUMMARY.replace("{path!r}", repr(str(counted)))
    write_unit(units, "summary", "SummaryFlowUnit", summary, ["in_label"], ["out_text"])
    (folder / "nearest_center.py").write_text(NEAREST)
    for name in ("classify", "summary"):  # a copy in each folder, as in real applications
        (units / name / "statistics_of_labels.py").write_text(STATISTICS)
    train = f"""
        import pickle, nearest_center
        with open("model.pkl", "wb") as file:
            pickle.dump(nearest_center.Nearest({CENTERS!r}), file)
    """
    programs.run(["python", "-c", textwrap.dedent(train)], cwd=folder, check=True)
    values = [[9, 8], [0, 1], [-4, 1], [1, 1], [-2, 0]]
    space = {}
    exec(NEAREST, space)
    expected = [space["Nearest"](CENTERS).predict(item) for item in values]
    found = results(write_graph(tmp_path, CLASSIFYING), [str(item) for item in values])
    assert found == [f"{label} True" for label in expected]
    counts = sorted((label, expected.count(label)) for label in set(expected))
    assert counted.read_text() == str(counts)
