import pytest

from modelflow.device import CPU, Device, available_devices, parse_devices, require_devices
from modelflow.errors import ConfigError, DeviceUnavailableError


@pytest.mark.parametrize(
    ("device", "deviceid", "expected"),
    [
        ("cpu", None, ["cpu:0"]),
        ("cuda", "1", ["cuda:1"]),
        ("cuda", "0,1", ["cuda:0", "cuda:1"]),
        ("cuda:0,1;cpu:0", None, ["cuda:0", "cuda:1", "cpu:0"]),
        (" cuda : 2 ", None, ["cuda:2"]),
        ("cuda:1,1", None, ["cuda:1"]),
    ],
)
def test_parse_devices_reads_lists(device, deviceid, expected):
    assert [str(found) for found in parse_devices(device, deviceid)] == expected


@pytest.mark.parametrize(
    ("device", "deviceid", "message"),
    [
        ("", None, "got an empty string"),
        ("gpu", None, "got 'gpu'; expected 'cpu', 'cuda' or 'auto'"),
        ("cdua", None, "did you mean 'cuda'"),
        ("cuda:x", None, "got the number 'x'"),
        ("cuda", "-1", "got the number '-1'"),
        ("cuda:1", "0", "which names its own numbers"),
        ("cuda;cpu", "0", "which names its own numbers"),
    ],
)
def test_parse_devices_says_what_is_wrong(device, deviceid, message):
    with pytest.raises(ConfigError, match=message):
        parse_devices(device, deviceid)


def test_the_cpu_is_always_there():
    assert available_devices()[0] == CPU
    require_devices([CPU])


def test_require_devices_names_the_absent_and_the_existing():
    with pytest.raises(DeviceUnavailableError, match=r"device cuda:99 is not .*available: cpu:0"):
        require_devices([CPU, Device("cuda", 99)])


def test_auto_takes_a_device_that_exists():
    (device,) = parse_devices("auto")
    assert device in available_devices()
