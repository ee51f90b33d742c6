"""The engine of PyTorch: finds the form of a file, and refuses pickled Python objects."""

import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from modelflow.device.torch_memory import load_torch
from modelflow.engine.engine import Engine, LoadedModel, LoadRequest, model_error, one_sentence
from modelflow.engine.model_file import looks_like
from modelflow.engine.python.unread import name_command
from modelflow.engine.torch.model import TorchModel
from modelflow.engine.torch.ports import read_exported_ports, script_ports
from modelflow.engine.torch.settings import TorchOptions, apply_settings, torch_device

_EXPECTED = "expected TorchScript (torch.jit.save) or an exported program (torch.export.save, .pt2)"
# PyTorch reads one exported program at a time, because its reader is a variable of the process.
_READING = threading.Lock()


class TorchEngine(Engine):
    """Runs TorchScript (``.pt``, ``.pth``, ``.ts``) and exported programs (``.pt2``).

    The input ports are the arguments of ``forward`` by name. The output ports are the keys of a
    dict. Results without keys are ``output`` or ``output0 output1 ...``, or have the names of the
    unit's ports.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".pt", ".pth", ".ts", ".torchscript", ".pt2")
    requires: ClassVar[Mapping[str, str]] = {"torch": "torch"}
    device_kinds: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    options = TorchOptions

    def load(self, request: LoadRequest) -> LoadedModel:
        """Loads a file and checks its ports; see `Engine.load`."""
        torch = load_torch("torch", "engine 'torch'")
        apply_settings(request)
        device = torch_device(request.device)
        if _is_exported(request.path):
            with _READING:
                program = _load(request.path, torch.export.load)
            ports = read_exported_ports(request, program)
            return TorchModel(request, program.module().to(device), ports)
        module = _load(request.path, lambda path: torch.jit.load(path, map_location=device))
        module.eval()
        ports = script_ports(request, module)
        return TorchModel(request, module, ports)


def _is_exported(path: Path) -> bool:
    """Returns True for an exported program, and False for TorchScript.

    Raises:
        EngineError: The file is neither.
    """
    if path.is_dir() or not zipfile.is_zipfile(path):
        found = "a folder" if path.is_dir() else looks_like(path)
        cut = " that is cut off or damaged" if found.startswith("a zip") else ""
        raise model_error(path, f"{found}{cut}; {_EXPECTED}")
    with zipfile.ZipFile(path) as archive:
        names = [name.partition("/")[2] or name for name in archive.namelist()]
        # The file's own directory is lost if zipfile finds that of an archive inside instead.
        is_cut = min((info.header_offset for info in archive.infolist()), default=0) > 0
    if is_cut:
        raise model_error(path, f"a zip archive that is cut off or damaged; {_EXPECTED}")
    if any(name.endswith(("exported_program.json", "models/model.json")) for name in names):
        return True
    if "constants.pkl" in names:
        return False
    if "data.pkl" in names:
        raise model_error(
            path,
            "a pickled Python object (torch.save), which could run any code when "
            f"it is read; {_EXPECTED}. A class of yours can read weights: "
            f"{name_command(path, 'safetensors')}",
        )
    raise model_error(path, f"a zip archive of another kind; {_EXPECTED}")


def _load(path: Path, read: Any) -> Any:
    torch = load_torch()
    try:
        return read(str(path))
    except (RuntimeError, ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise model_error(
            path,
            f"PyTorch {torch.__version__} does not load it, it may be cut off: "
            f"{one_sentence(str(error))}",
        ) from error
