"""A version being loaded: its flow, and one for each further signature that its model has."""

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
    """Loads a version, and runs the requests that are recorded with it; for a loader's thread.

    A further signature that does not load is left out, with a warning. All of them share the
    variables of the model.

    Args:
        name: What clients call it.
        version: What to load.
        loader: Holds the flows that run.
        loop_queue: How other threads reach the server's.
        options: What each signature takes.

    Raises:
        Cancelled: nobody wants it any more; nothing of it is left, except what hangs.
        Exception: whatever making and starting the flow raises, or a recorded request; nothing of
            it is left.
    """
    group = LoadGroup()  # a reload has another one: it shares nothing with what it replaces

    def load(signature: SignatureFlow) -> ServedModel:
        flow = loader.load(partial(signature.make, group))
        served = ServedModel(name, version.number, flow, loop_queue, options)
        served.signature_name, served.method = signature.name, signature.method
        served.tensor_names = signature.tensor_names
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
        if version.records is not None:
            warm_up(model, version.records)
        loader.check_wanted()  # it may have been given up in one of the requests
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
    """Stops what was loaded where the rest does not load."""
    try:
        yield
    except BaseException:
        for one in model.all_signatures():
            loader.unload(one.flow, drain=False)
        raise
