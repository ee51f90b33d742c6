"""Every option of the engine ``onnx`` reaches the session, or is refused with a reason."""

import pytest

import modelflow
from modelflow.device import Device
from modelflow.engine import LoadRequest, find_engine
from modelflow.engine.onnx import settings
from modelflow.errors import ConfigError, DeviceUnavailableError, EngineError, GraphError

runtime = pytest.importorskip("onnxruntime")
LEVEL = runtime.GraphOptimizationLevel
SPIN, DURATION = "session.intra_op.allow_spinning", "session.intra_op.spin_duration_us"
HAS_DURATION = tuple(map(int, runtime.__version__.split(".")[:2])) >= (1, 26)


@pytest.fixture
def session(onnx_model):
    """Returns a function that loads the model with options of a graph file."""

    def load(device="cpu", **options):
        engine = find_engine("onnx")
        request = LoadRequest(onnx_model, Device(device), engine.options(**options))
        return engine.load(request)._session

    return load


def entries(session):
    """Returns the entries about spinning that a session has."""
    found = {}
    for name in (SPIN, DURATION, "session.inter_op.allow_spinning"):
        try:
            found[name] = session.get_session_options().get_session_config_entry(name)
        except RuntimeError:  # it has no such entry
            continue
    return found


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("disable", LEVEL.ORT_DISABLE_ALL),
        ("basic", LEVEL.ORT_ENABLE_BASIC),
        ("extended", LEVEL.ORT_ENABLE_EXTENDED),
        ("all", LEVEL.ORT_ENABLE_ALL),
    ],
)
def test_graph_optimization_is_the_sessions_level(session, value, level):
    options = session(graph_optimization=value).get_session_options()
    assert options.graph_optimization_level == level
    assert session().get_session_options().graph_optimization_level == LEVEL.ORT_ENABLE_ALL


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, {}),
        (False, {SPIN: "0"}),
        (0, {SPIN: "0"}),
        (10, {DURATION: "10"}),
        (250, {DURATION: "250"}),
    ],
)
def test_spinning_is_a_time_or_the_runtimes_choice(session, value, expected):
    if not HAS_DURATION and DURATION in expected:
        pytest.skip("this version of ONNX Runtime knows no time")
    between = {} if value is True else {"session.inter_op.allow_spinning": "0"}
    assert entries(session(spinning=value)) == {**expected, **between}


def test_spinning_by_default_is_ten_microseconds(session):
    assert entries(session()).items() >= ({DURATION: "10"} if HAS_DURATION else {SPIN: "0"}).items()


def test_a_time_to_spin_needs_a_runtime_that_knows_it(session, monkeypatch):
    monkeypatch.setattr(runtime, "__version__", "1.25.0")
    assert entries(session())[SPIN] == "0"
    with pytest.raises(EngineError, match=r"spinning: got 50, but ONNX Runtime 1\.25\.0 spins for"):
        session(spinning=50)


def test_entries_of_the_session_are_handed_through(session):
    options = session(
        session=("session.set_denormal_as_zero=1", f"{SPIN} = 1"), spinning=False
    ).get_session_options()
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    assert options.get_session_config_entry(SPIN) == "1"  # they come last


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"session": "a"}, r"session: got 'a'; expected KEY=VALUE"),
        ({"session": "a=1,=2"}, r"session: got '=2'; expected KEY=VALUE"),
        ({"session": "a=1, a=2"}, r"session: got two values for 'a'; expected one"),
        ({"spinning": -1}, r"option 'spinning': got -1; expected a number from 0 to 1000000"),
        ({"spinning": "long"}, r"got 'long'; expected a whole number or true or false"),
        ({"graph_optimization": "al"}, r"expected one of 'disable', .*did you mean 'all'"),
    ],
)
def test_values_that_do_not_fit_are_refused_before_the_start(onnx_model, options, message):
    with pytest.raises((ConfigError, GraphError), match=message):
        modelflow.Model(onnx_model, **options)


@pytest.mark.parametrize("name", ["cpu", "CPU", "CPUExecutionProvider"])
def test_providers_have_short_and_full_names(session, name):
    assert session(providers=(name,)).get_providers() == ["CPUExecutionProvider"]


def test_providers_come_in_the_given_order(session):
    available = runtime.get_available_providers()
    if "AzureExecutionProvider" not in available:
        pytest.skip("this build has one provider")
    found = session(providers=("azure", "cpu")).get_providers()
    assert found == ["AzureExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("name", "provider", "package"),
    [
        ("tensorrt", "Tensorrt", "onnxruntime-gpu"),
        ("cuda", "CUDA", "onnxruntime-gpu"),
        ("openvino", "OpenVINO", "onnxruntime-openvino"),
        ("dml", "Dml", "a build of onnxruntime that has it"),
    ],
)
def test_a_provider_that_is_missing_names_its_package(
    session, name, provider, package, monkeypatch
):
    monkeypatch.setattr(runtime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    text = rf"providers: got {name}: ONNX Runtime \S+ has no {provider}ExecutionProvider, only "
    with pytest.raises(DeviceUnavailableError, match=f"{text}CPU.*; install {package} in place"):
        session(providers=(name,))


def test_an_unknown_provider_names_the_nearest(session):
    with pytest.raises(EngineError, match=r"got 'cdua'; did you mean 'cuda'\?; expected some of "):
        session(providers=("cdua",))


@pytest.mark.parametrize(
    ("names", "device", "message"),
    [
        (("cuda", "cpu"), "cpu", "got cuda, cpu on the device cpu:0; expected the device cuda"),
        (("cpu",), "cuda", "got cpu on the device cuda:0; expected providers of cuda"),
    ],
)
def test_providers_and_device_must_fit(session, names, device, message, monkeypatch):
    monkeypatch.setattr(runtime, "get_available_providers", runtime.get_all_providers)
    with pytest.raises(EngineError, match=message):
        session(device, providers=names)


def test_a_provider_that_does_not_start_is_an_error(session):
    running = session()
    settings.check_providers(running, [("CPUExecutionProvider", {})])
    with pytest.raises(DeviceUnavailableError, match="ONNX Runtime could not start it"):
        settings.check_providers(running, [("CUDAExecutionProvider", {})])
