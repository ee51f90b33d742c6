"""Loading of a version: its default flow, and a flow for each further signature."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType

from modelflow.engine.engine import LoadGroup
from modelflow.errors import Cancelled, FlowFailed, ModelflowError
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.options import ServeOptions
from modelflow.serve.repository.flows import SignatureFlow
from modelflow.serve.repository.loader import Loader
from modelflow.serve.repository.source import ModelVersion
from modelflow.serve.requests.served_model import ServedModel
from modelflow.serve.warmup_records import warm_up

logger = logging.getLogger(__name__)


def load_version(
    name: str, version: ModelVersion, loader: Loader, loop_queue: LoopQueue, options: ServeOptions
) -> ServedModel:
    """Loads a version, and runs its recorded warm-up requests. For a thread of the loader.

    A further signature that does not load is skipped with a warning. All signatures share the
    variables of the model.

    Args:
        name: The model's name in requests.
        version: The version to load.
        loader: Starts the flows.
        loop_queue: Passes calls from other threads to the server's thread.
        options: The limits on requests.

    Raises:
        Cancelled: the load is no longer wanted. The flows are stopped, except for nodes that hang.
        Exception: an error of creating or starting a flow, or of a recorded request. The flows are
            stopped.
    """
    group = LoadGroup()  # a new group for each load: versions share nothing

    def load(signature: SignatureFlow) -> ServedModel:
        flow = loader.load(partial(signature.make, group))
        served = ServedModel(name, version.number, flow, loop_queue, options)
        served.signature_name, served.method = signature.name, signature.method
        served.tensor_names = signature.tensor_names
        served.tuning = version.tuning
        return served

    default, *further = version.signatures()
    model = load(default)
    with _undone(model, loader):
        found: dict[str, ServedModel] = {}
        model.others = MappingProxyType(found)
        for one in further:
            try:
                other = found[one.name] = load(one)
            except Cancelled:
                raise
            except (ModelflowError, FlowFailed) as error:
                text = "model %r, version %d: its signature %r is not served: %s"
                logger.warning(text, name, version.number, one.name, error)
            else:
                other.figures, other.admission = model.figures, model.admission
                other.cache = model.cache
        if version.records is not None and version.records.is_file():
            warm_up(model, version.records)
        loader.check_wanted()  # the load may have been given up during warm-up
    return model


def unload_version(model: ServedModel, loader: Loader) -> None:
    """Stops every flow of a version.

    Raises:
        FlowFailed: flows failed; all have been stopped.
    """
    failures: list[Exception] = []
    for one in model.all_signatures():
        try:
            loader.unload(one.flow)
        except FlowFailed as failure:
            failures.extend(failure.exceptions)
    if failures:
        raise FlowFailed(f"model {model.name!r}, version {model.version} failed", failures)


@contextmanager
def _undone(model: ServedModel, loader: Loader) -> Iterator[None]:
    """Stops the loaded flows if the block raises."""
    try:
        yield
    except BaseException:
        for one in model.all_signatures():
            loader.unload(one.flow, drain=False)
        raise
