"""Reading the node attributes ``device`` and ``deviceid``."""

from modelflow.device.device import Device
from modelflow.device.lookup import available_devices, memory_kinds
from modelflow.errors import ConfigError, did_you_mean

# What others call it.
_ALSO_CALLED = {"gpu": "cuda", "nvidia": "cuda", "x86": "cpu"}


def parse_devices(device: str = "cpu", deviceid: str | None = None) -> tuple[Device, ...]:
    """Reads the node attributes ``device`` and ``deviceid``.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:1``, ``auto``, or a list ``cuda:0,1;cpu:0``.
        deviceid: Numbers separated by commas, for a ``device`` that gives none.

    Returns:
        The devices named, in the order written. Whether they exist is not looked at, except that
        ``auto`` gives a CUDA device where the machine has one.

    Raises:
        ConfigError: the text is not of that form.
    """
    groups = [part.strip() for part in device.split(";") if part.strip()]
    if not groups:
        message = "device: got an empty string; expected 'cpu', 'cuda', 'auto' or 'cuda:0,1;cpu:0'"
        raise ConfigError(message)
    has_numbers = any(":" in group for group in groups)
    if deviceid is not None and (has_numbers or len(groups) > 1):
        message = (
            f"deviceid: got {deviceid!r} beside device {device!r}, which names its own numbers; "
            "give one of the two"
        )
        raise ConfigError(message)
    found: list[Device] = []
    for group in groups:
        kind, colon, numbers = group.partition(":")
        written = numbers if colon else (deviceid if deviceid is not None else "0")
        found.extend(Device(_kind(kind.strip()), number) for number in _numbers(written, device))
    return tuple(dict.fromkeys(found))


def _kind(kind: str) -> str:
    if kind == "auto":
        return "cuda" if any(device.kind == "cuda" for device in available_devices()) else "cpu"
    if problem := kind_problem(kind, "auto"):
        message = f"device: {problem}"
        raise ConfigError(message)
    return kind


def kind_problem(kind: str, *also: str) -> str:
    """Returns what to say of a kind of device that there is not; "": there is.

    Args:
        kind: What was written.
        also: What may be written in its place.
    """
    known = [*memory_kinds(), *also]
    if kind in known:
        return ""
    expected = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
    other = _ALSO_CALLED.get(kind.lower())
    near = f"; did you mean {other!r}?" if other else did_you_mean(kind, known)
    return f"got {kind!r}; expected {expected}{near}"


def _numbers(text: str, device: str) -> list[int]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(number.isdecimal() and len(number) <= 4 for number in numbers):
        message = f"device {device!r}: got the number {text!r}; expected a number, or a list '0,1'"
        raise ConfigError(message)
    return [int(number) for number in numbers]
