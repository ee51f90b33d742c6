"""Adds a model to a graph, with the nodes before and behind the model. Pure."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelflow.config.edit.graph_text import GraphText
from modelflow.config.flow_config import PortRef
from modelflow.errors import ConfigError
from modelflow.graph.node import Role
from modelflow.registry.registry import Registry
from modelflow.studio.edit.clipping import free_name, parse_value
from modelflow.studio.edit.models.guess import CLASSIFY, DETECT, OBJECTS, PLAIN, Guess
from modelflow.studio.edit.models.pixels import preprocess_options

Settings = Mapping[str, Any]


def uses_of(text: GraphText, guess: Guess) -> list[str]:
    """Returns the possible uses of a model in a graph, the guessed one first."""
    uses = guess.uses
    if CLASSIFY in uses and _objects(text) is not None:
        uses.insert(uses.index(CLASSIFY) + 1, OBJECTS)
    return uses


@dataclass(frozen=True)
class ModelUnit:
    """The unit that runs a model.

    Attributes:
        name: The name of the unit.
        outputs: All outputs of the unit.
        tensors: The outputs that the next node reads, in its order. Empty for the first output.
    """

    name: str
    outputs: tuple[str, ...]
    tensors: tuple[str, ...] = ()


def add_model(
    text: GraphText, registry: Registry, unit: ModelUnit, use: str, settings: Settings
) -> tuple[GraphText, list[str]]:
    """Adds the node of a model and the nodes of its use, and connects the nodes.

    Args:
        text: The graph.
        registry: The registry to convert values of options.
        unit: The unit that runs the model.
        use: One of `uses_of`.
        settings: The settings of the chain.

    Returns:
        The new graph and the names of the added nodes.

    Raises:
        ConfigError: A setting is missing or does not fit, or the graph has no place for the use.
    """
    chain = _Chain(text, registry, unit, settings)
    match use:
        case "plain":
            chain.add_unit()
        case "classify":
            chain.classify()
        case "detect":
            chain.detect()
        case "classify_objects":
            chain.classify_objects()
        case _:
            known = ", ".join((CLASSIFY, DETECT, OBJECTS, PLAIN))
            raise ConfigError(f"use: got {use!r}; expected one of {known}")
    return chain.text, chain.added


def _unit_of(text: GraphText, name: str) -> str:
    given = text.nodes[name]
    is_unit = given.get("type", Role.FLOWUNIT) == Role.FLOWUNIT
    return str(given.get("flowunit") or name) if is_unit else ""


def _nodes_of(text: GraphText, unit: str) -> list[str]:
    return [name for name in text.nodes if _unit_of(text, name) == unit]


def _ports(text: GraphText, role: Role) -> list[str]:
    return [name for name, given in text.nodes.items() if given.get("type") == role]


def _objects(text: GraphText) -> tuple[str, str] | None:
    """Returns the last node with boxes in pixels of a picture, and the decoder of the picture."""
    for boxes in reversed(_nodes_of(text, "boxes_to_original")):
        waiting, seen = [boxes], {boxes}
        while waiting:
            name = waiting.pop(0)
            if name in text.nodes and _unit_of(text, name) == "image_decoder":
                return boxes, name
            before = [a.node for a, b in text.edges if b.node == name and a.node not in seen]
            seen.update(before)
            waiting += before
    return None


class _Chain:
    """A graph to which the nodes of a model are added."""

    def __init__(
        self, text: GraphText, registry: Registry, unit: ModelUnit, settings: Settings
    ) -> None:
        self.text = text
        self.added: list[str] = []
        self._registry, self._unit, self._settings = registry, unit.name, settings
        tensors = unit.tensors or unit.outputs[:1]
        self._tensors = [name if len(unit.outputs) > 1 else None for name in tensors]
        self._model = ""

    def add_unit(self) -> None:
        """Adds the node of the model."""
        self._model = self.add(self._unit, self._unit)

    def add(self, wanted: str, unit: str, **options: Any) -> str:
        """Adds a node of a unit, and returns its name."""
        given = {key: value for key, value in options.items() if value is not None}
        values = {
            key: parse_value(self.text, unit, key, _write(value), self._registry)
            for key, value in given.items()
        }
        return self._add(wanted, {"flowunit": unit, **values})

    def _add(self, wanted: str, values: Mapping[str, Any]) -> str:
        name = free_name(wanted, self.text.nodes)
        self.text = self.text.add_node(name, values)
        self.added.append(name)
        return name

    def _connect(self, *nodes: str) -> None:
        for source, target in itertools.pairwise(nodes):
            output = self._tensors[0] if source == self._model else None
            self.text = self.text.connect(PortRef(source, output), PortRef(target))

    def classify(self) -> None:
        """Adds a classifier of whole pictures."""
        width, height = self._size()
        decode, output = self._picture(), self._output("answer")
        resize = self.add("resize", "resize", image_width=width, image_height=height)
        scale = self.add("scale", "image_preprocess", **preprocess_options(self._settings))
        self.add_unit()
        best = self._top_k()
        self._connect(decode, resize, scale, self._model, best, output)

    def detect(self) -> None:
        """Adds a detector, whose boxes are in pixels of the picture."""
        width, height = self._size()
        head = self._require("head")
        decode, output = self._picture(), self._output("objects")
        letterbox = self.add(
            "letterbox",
            "letterbox",
            image_width=width,
            image_height=height,
            keep_ratio=False if head == "rtdetr" else None,
        )
        scale = self.add("scale", "image_preprocess", **preprocess_options(self._settings))
        self.add_unit()
        boxes = self.add(
            "boxes",
            "yolo_postprocess",
            head=head,
            classes=self._settings.get("classes"),
            input_width=width,
            input_height=height,
            logits=self._settings.get("logits") or None,
            labels=self._settings.get("labels"),
        )
        original = self.add("original", "boxes_to_original")
        self._connect(decode, letterbox, scale, self._model)
        for number, name in enumerate(self._tensors, 1):
            port = f"in_feat{number}" if len(self._tensors) > 1 else None
            self.text = self.text.connect(PortRef(self._model, name), PortRef(boxes, port))
        self._connect(boxes, original, output)

    def classify_objects(self) -> None:
        """Adds a classifier of each object of a detector.

        The output that got the boxes gets the list of objects with their classes.
        """
        place = _objects(self.text)
        if place is None:
            raise ConfigError(
                "the graph has no boxes to classify; expected a node of unit boxes_to_original and "
                "the image_decoder of its picture. Bring in a detector first"
            )
        boxes, decode = place
        width, height = self._size()
        output = self._free_output(boxes)
        crop = self.add(
            "crop",
            "crop_boxes",
            margin=self._settings.get("margin") or None,
            image_width=width,
            image_height=height,
        )
        scale = self.add("scale_crop", "image_preprocess", **preprocess_options(self._settings))
        self.add_unit()
        best = self._top_k(most=1)
        gather = self.add("gather", "gather", meta="box,score", key="classes")
        self.text = self.text.connect(PortRef(decode), PortRef(crop, "in_image"))
        self.text = self.text.connect(PortRef(boxes), PortRef(crop, "in_region"))
        self._connect(crop, scale, self._model, best, gather, output)

    def _top_k(self, most: int | None = None) -> str:
        options = {key: self._settings.get(key) for key in ("labels", "softmax")}
        return self.add("best", "top_k", k=most, **options)

    # -- the ends of the chain ------------------------------------------------------------------

    def _picture(self) -> str:
        """Returns the decoder of an input without edges, any other decoder, or a new decoder."""
        self._free_ends()
        sources = {source.node for source, _ in self.text.edges}
        inputs = [name for name in _ports(self.text, Role.INPUT) if name not in sources]
        decoders = _nodes_of(self.text, "image_decoder")
        if decoders and not inputs:
            return decoders[0]
        targets = {target.node for _, target in self.text.edges}
        image = inputs[0] if inputs else self._add("image", {"type": str(Role.INPUT)})
        decode = next((name for name in decoders if name not in targets), None)
        decode = decode or self.add("decode", "image_decoder")
        self.text = self.text.connect(PortRef(image), PortRef(decode))
        return decode

    def _output(self, wanted: str) -> str:
        """Returns an output without edges, or a new output."""
        targets = {target.node for _, target in self.text.edges}
        outputs = [name for name in _ports(self.text, Role.OUTPUT) if name not in targets]
        return outputs[0] if outputs else self._add(wanted, {"type": str(Role.OUTPUT)})

    def _free_ends(self) -> None:
        """Removes the edges of a graph that has inputs and outputs only."""
        ports = {*_ports(self.text, Role.INPUT), *_ports(self.text, Role.OUTPUT)}
        if ports == set(self.text.nodes):
            for ends in self.text.edges:
                self.text = self.text.disconnect(*ends)

    def _free_output(self, boxes: str) -> str:
        """Returns the output that a node feeds, without that edge, or another output."""
        outputs = _ports(self.text, Role.OUTPUT)
        for ends in self.text.edges:
            if ends[0].node == boxes and ends[1].node in outputs:
                self.text = self.text.disconnect(*ends)
                return ends[1].node
        return self._output("objects")

    # -- settings -------------------------------------------------------------------------------

    def _size(self) -> tuple[int, int]:
        return self._require("width"), self._require("height")

    def _require(self, name: str) -> Any:
        value = self._settings.get(name)
        if value is None:
            raise ConfigError(
                f"settings: {name}: the model does not say it; give the value that the model was "
                "trained with"
            )
        return value


def _write(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
