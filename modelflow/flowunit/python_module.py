"""Loading a unit's class from the Python file in its folder."""

import hashlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from modelflow.errors import ConfigError, did_you_mean
from modelflow.flowunit.unit import FlowUnit

__all__ = ["load_class"]

_lock = threading.RLock()
_modules: dict[Path, ModuleType] = {}


def load_class(file: Path, name: str) -> FlowUnit:
    """Makes an instance of the class ``name`` in ``file``, which is imported once a process.

    The file may import the modules beside it; two folders with modules of the same name do not
    meet, because each gets its own.

    Raises:
        ConfigError: there is no such class, or it is no `FlowUnit`.
        Exception: whatever the file raises when it is imported.
    """
    module = _module(file.resolve())
    found = getattr(module, name, None)
    if found is None:
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        message = f"{file}: there is no class {name!r}{did_you_mean(name, classes)}"
        raise ConfigError(message)
    if not (isinstance(found, type) and issubclass(found, FlowUnit)):
        message = f"{file}: {name!r} is no flow unit; expected a subclass of modelflow.FlowUnit"
        raise ConfigError(message)
    return found()


def _module(file: Path) -> ModuleType:
    with _lock:
        if file not in _modules:
            digest = hashlib.sha256(str(file).encode()).hexdigest()[:12]
            name = f"modelflow_unit_{file.stem}_{digest}"
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None  # the file ends in .py
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module  # dataclasses and typing look their module up
            try:
                with _siblings(file.parent):
                    spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
            _modules[file] = module
        return _modules[file]


@contextmanager
def _siblings(folder: Path) -> Iterator[None]:
    """Lets the folder's own modules be imported, and hides them again afterwards.

    Modules of these names that are already there are put back: another folder, or the application,
    may have some of the same name.
    """
    names = {path.stem for path in folder.glob("*.py")}
    names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    hidden = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [n for n in sys.modules if n.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(hidden)
