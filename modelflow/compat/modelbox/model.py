"""`Model`: a single unit, for example a model, called directly."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from modelflow.compat.modelbox.buffer import Buffer
from modelflow.compat.modelbox.status import Status, StatusCode, status_of
from modelflow.device import available_devices, parse_devices
from modelflow.errors import EngineError, FlowFailed, ModelflowError
from modelflow.model import Model as NativeModel


class Model:
    """The unit ``name`` in the folder ``path``, in a folder below, or in the unit file ``path``.

    The arguments are ``Model(path, name, batch_size, device, device_id)``. The older order is
    ``Model(path, name, inputs, outputs, batch_size, device, device_id)``. If ``device`` contains
    numbers, ``device_id`` is ignored. Of ``cuda:0,1;cpu:0`` the devices of this machine are used.
    """

    def __init__(  # noqa: PLR0913 - ModelBox's
        self,
        path: str,
        name: str,
        inputs: Sequence[str] | int | None = None,
        outputs: Sequence[str] | str | None = None,
        batch_size: int | str | None = None,
        device: str | None = None,
        device_id: int | str | None = None,
        max_batch_size: int = 1,
    ) -> None:
        size, number = batch_size, device_id
        kind: Any = device
        if isinstance(inputs, int):  # the newer order
            size, kind = inputs, device or outputs
            number = batch_size if device_id is None else device_id
        self._paths = [path]
        self._name = name
        self._batch_size = int(max_batch_size if size is None else size)
        self._device = str(kind or "cpu")
        is_numbered = ":" in self._device or ";" in self._device
        self._device_id = None if is_numbered else str(number or "0")
        self._model: NativeModel | None = None

    def add_path(self, path: str) -> None:
        """Adds a folder to search for the unit."""
        self._paths.append(path)

    def start(self) -> Status:
        """Loads the unit."""
        failures = [f"no unit {self._name!r} in {', '.join(self._paths)}"]
        for folder in self._folders():
            try:
                self._model = NativeModel(
                    folder, self._name, self._batch_size, _present(self._device), self._device_id
                )
                self._model.start()
            except (EngineError, ModelflowError) as error:
                failures.append(str(error))
            except FlowFailed as error:
                return status_of(error)
            else:
                return Status()
        return Status(StatusCode.STATUS_BADCONF, "; ".join(failures[1:] or failures))

    def _folders(self) -> Iterator[Path]:
        """Yields the folders that contain the unit, in the paths and below them."""
        for path in map(Path, self._paths):
            for file in [path] if path.is_file() else sorted(path.rglob("*.toml")):
                try:
                    base = tomllib.loads(file.read_text(encoding="utf-8")).get("base")
                except (tomllib.TOMLDecodeError, UnicodeDecodeError):
                    continue  # the file is no unit file
                if isinstance(base, dict) and base.get("name") == self._name:
                    yield file.parent

    def stop(self) -> None:
        """Frees the unit."""
        if self._model is not None:
            self._model.stop()

    def infer(self, data_list: Sequence[Any]) -> list[Buffer]:
        """Runs one item: takes one value for each input, and returns one buffer for each output.

        Raises:
            ModelflowError: The model has not been started, or fails.
        """
        found = self._running().infer([_plain(value) for value in data_list])
        return [Buffer(buffer) for buffer in found]

    def infer_batch(self, data_list: Sequence[Sequence[Any]]) -> list[list[Buffer]]:
        """Runs many items: takes the values of each input, and returns the buffers of each output.

        Raises:
            ModelflowError: The model has not been started.
        """
        columns = [[_plain(value) for value in values] for values in data_list]
        found = self._running().infer_batch(columns)
        return [[Buffer(buffer) for buffer in column] for column in found]

    def _running(self) -> NativeModel:
        if self._model is None:
            raise ModelflowError(f"model {self._name!r} has not been started; call start()")
        return self._model


def _present(device: str) -> str:
    """Returns the devices of a list that this machine has, or the whole list if none exists."""
    if ":" not in device and ";" not in device:
        return device
    there = [found for found in parse_devices(device) if found in available_devices()]
    return ";".join(map(str, there)) or device


def _plain(value: Any) -> Any:
    return Buffer(value if isinstance(value, Buffer) else None, value).native
