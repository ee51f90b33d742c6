"""Graphs for drawings, and the drawing of any graph's outline."""

import itertools
import random

from modelflow.draw.outline import PORT, Outline, OutlineEdge, OutlineNode

__all__ = ["PICTURES", "outline_of", "random_outline"]


def outline_of(name, text, **marks):
    """Returns the outline of edges such as ``a:x -> b:y`` and chains such as ``a -> b -> c``.

    Nodes are in the order of their first mention, which has to be topological. A node whose name
    begins with "input" or "output" is a port of the graph.

    Args:
        name: The name of the graph.
        text: The edges, one a line.
        marks: The marks of nodes.
    """
    edges, inputs, outputs = [], {}, {}
    for line in filter(None, map(str.strip, text.splitlines())):
        ends = [end.split(":") for end in line.split(" -> ")]
        for (source, *output), (target, *into) in itertools.pairwise(ends):
            edge = OutlineEdge(source, (output or ["out"])[-1], target, (into or ["in"])[0])
            edges.append(edge)
            for node in (source, target):
                inputs.setdefault(node, {}), outputs.setdefault(node, {})
            outputs[source][edge.output] = inputs[target][edge.input] = None
    nodes = tuple(
        _node(node, tuple(inputs[node]), tuple(outputs[node]), marks.get(node, ""))
        for node in inputs
    )
    return Outline(name, nodes, tuple(edges), "cpu:0")


def _node(name, inputs, outputs, mark):
    if name.startswith(("input", "output")):
        return OutlineNode(name, PORT, (name, "graph port"), inputs, outputs)
    lines = (name, f"unit_of_{name}", "batch 8 · queue 16")
    return OutlineNode(name, "cpu", lines, inputs, outputs, None, mark)


def random_outline(seed, *, nodes=14, back=2):
    """Returns a random graph whose nodes have up to four ports a side."""
    rng = random.Random(seed)
    count = rng.randint(1, nodes)
    ports = [
        [f"{side}_{'x' * rng.randint(0, 30)}{place}" for place in range(rng.randint(1, 4))]
        for side in ("in", "out")
        for _ in range(count)
    ]
    inputs, outputs = ports[:count], ports[count:]
    edges = []
    for target in range(1, count):
        for into in inputs[target]:
            if rng.random() < 0.8:
                source = rng.randrange(target)
                edges.append((source, rng.choice(outputs[source]), target, into))
    for _ in range(rng.randint(0, back)):
        source, target = sorted(rng.choices(range(count), k=2), reverse=True)
        edges.append((source, rng.choice(outputs[source]), target, rng.choice(inputs[target])))
    marks = ["", "source", "sink", "condition", "loop", "expand", "collapse", "stream"]
    found = tuple(
        OutlineNode(
            f"n{place}",
            rng.choice(["cpu", "cuda", PORT]),
            (f"n{place}", "x" * rng.randint(1, 30)),
            tuple(inputs[place]),
            tuple(outputs[place]),
            None,
            rng.choice(marks),
        )
        for place in range(count)
    )
    named = (OutlineEdge(f"n{a}", output, f"n{b}", into) for a, output, b, into in edges)
    return Outline(f"random {seed}", found, tuple(dict.fromkeys(named)), "cpu:0")


def _many(count):
    """Returns the edges of a graph in which each node feeds up to three later nodes."""
    rng = random.Random(7)
    lines = ["input -> n0"]
    for place in range(1, count - 2):
        near = {max(0, place - rng.randint(1, 4)) for _ in range(rng.choice([1, 1, 1, 2]))}
        lines += [f"n{one} -> n{place}:from_{one}" for one in sorted(near)]
    return "\n".join([*lines, f"n{count - 3} -> output"])


PICTURES = {
    "loop": outline_of(
        "loop",
        """input -> refine:in
        refine:again -> improve -> judge -> refine:back
        refine:done -> output""",
        refine="loop",
        judge="condition",
    ),
    "expand_in_a_loop": outline_of(
        "expand inside a loop",
        """input -> search:in
        search:next -> split_regions -> classify -> join_regions -> score -> search:back
        search:out -> decide:in
        decide:found -> output
        decide:none -> search:retry""",
        search="loop",
        split_regions="expand",
        join_regions="collapse",
        decide="condition",
    ),
    "sixty_nodes": outline_of("sixty nodes", _many(60)),
    "condition_with_merge": outline_of(
        "condition with merge",
        """input -> decode -> is_large
        is_large:large -> shrink
        is_large:small -> enlarge -> sharpen
        shrink -> model:in_image
        sharpen -> model:in_image
        decode -> model:in_the_original_image
        model:out_a_very_long_name_of_a_port -> output
        model:out_scores -> outputs""",
        is_large="condition",
    ),
    "two_sources": outline_of(
        "two sources",
        """camera -> decode -> detect
        microphone -> spectrum -> words
        detect -> match:in_boxes
        words -> match:in_words
        match -> report""",
        camera="source",
        microphone="source",
        decode="stream",
        words="stream",
        report="sink",
    ),
    "chain_of_14": outline_of(
        "chain of 14", " -> ".join(["input", *(f"step_{place}" for place in range(12)), "output"])
    ),
    "parallel_branches": outline_of(
        "parallel branches",
        """input -> split
        split:c -> third
        split:a -> first
        split:b -> second -> polish
        third -> merge:in_a
        first -> merge:in_c
        polish -> merge:in_b
        merge -> output""",
    ),
    "many_ports": outline_of(
        "many ports",
        "\n".join(
            [
                *(f"input_{place} -> hub:in_number_{place}" for place in range(9)),
                *(f"hub:out_{place} -> sink_{8 - place}" for place in range(9)),
            ]
        ),
        **{f"sink_{place}": "sink" for place in range(9)},
    ),
}
