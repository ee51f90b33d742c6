"""Random DOT texts that use the whole grammar."""

from hypothesis import strategies as st

NAMES = ["a", "b", "c", "node1", "d e", "f:g", "ä", "if\\n", "-1"]
PLAIN = {"a", "b", "c", "node1", "ä", "-1"}
KEYS = ["x", "y", "device", "two words"]
VALUES = ["1", "2.5", "cuda", "a b", "", "it's", 'say "no"', "$arg", "0,1", "a\\b", "#", "->"]
GAPS = ["", " ", "  ", "\n", "\n\t", " /* c */ ", " # c -> d\n   ", " // [e]\n", "/*\n*/"]


def quoted(text):
    return '"' + text.replace('"', '\\"') + '"'


@st.composite
def written(draw, text):
    """Returns a name or value, with or without quotes."""
    return text if text in PLAIN and draw(st.booleans()) else quoted(text)


class Writer:
    """Writes random DOT."""

    def __init__(self, draw):
        self.draw = draw
        self.noise = draw(st.integers(0, 2))

    def pick(self, options):
        return self.draw(st.sampled_from(options))

    def gap(self, usual):
        return (
            self.pick(GAPS) if self.noise and self.draw(st.integers(0, 9)) < self.noise else usual
        )

    def mention(self):
        name = self.draw(written(self.pick(NAMES)))
        if self.draw(st.integers(0, 3)):
            return name
        return name + self.gap("") + ":" + self.gap("") + self.pick(["in", '"out:0"', "n", "p:ne"])

    def attributes(self):
        parts = []
        for key in self.draw(st.lists(st.sampled_from(KEYS), max_size=3)):
            value = self.draw(written(self.pick(VALUES)))
            separator = self.pick([", ", ", ", "; ", " ", ",\n      "])
            parts.append(
                f"{quoted(key) if ' ' in key else key}{self.gap('=') and '='}{value}{separator}"
            )
        inside = "".join(parts)
        return f"[{inside if self.noise else inside.rstrip(' ,;')}]"

    def end(self, depth):
        if depth or self.draw(st.integers(0, 5)):
            return self.mention()
        return self.pick(["", "subgraph ", "subgraph s "]) + "{" + self.body(depth + 1) + "}"

    def statement(self, depth):
        kind = self.draw(st.integers(0, 11))
        if kind < 4:
            return self.mention() + self.pick(["", " "]) + self.attributes()
        if kind < 8:
            ends = [self.end(depth) for _ in range(self.draw(st.integers(2, 4)))]
            chain = ends[0]
            for end in ends[1:]:
                chain += self.gap(" ") + "->" + self.gap(" ") + end
            return chain + self.pick(["", "", " [style=dotted]", "[tailport=t]"])
        if kind == 8:
            return self.pick(["node", "node", "edge"]) + " " + self.attributes()
        if kind == 9:
            return self.pick(["queue_size=4", "graph [batch_size=2]", "edge [headport=h]"])
        return self.end(depth) if kind == 10 else self.mention()

    def body(self, depth):
        statements = [
            self.statement(depth) + self.pick(["", ";", " ;"])
            for _ in range(self.draw(st.integers(0, 6 if depth == 0 else 3)))
        ]
        if self.draw(st.integers(0, 3)) == 0:
            return " " + " ".join(statements) + self.pick(["", " "])
        indent = "    " * (depth + 1)
        lines = [indent + one + self.pick(["", "", "  # note", " /* n */"]) for one in statements]
        return "\n" + "".join(line + "\n" for line in lines) + "    " * depth


@st.composite
def dot_texts(draw):
    writer = Writer(draw)
    head = draw(st.sampled_from(["digraph", "strict digraph g", "# first\ndigraph 'g'"[:16]]))
    return f"{head} {{{writer.body(0)}}}{draw(st.sampled_from(['', chr(10)]))}"
