"""The forms of graph files that can be edited, and where in each of them the graph stands."""

from collections.abc import Mapping

from modelflow.config.document import Document, mistake, read_toml
from modelflow.config.edit.dot import DotEdits
from modelflow.config.edit.native import NativeEdits
from modelflow.config.edit.toml_spans import TomlString, value_span
from modelflow.config.edit.toml_tables import TomlTables
from modelflow.errors import did_you_mean

_GRAPHCONF = ("graph", "graphconf")


def open_text(
    text: str, form: str, file: str
) -> tuple[DotEdits | NativeEdits, TomlTables, TomlString | None]:
    """Returns what can be done with a text.

    Returns:
        The edits of the graph in it; the tables around the graph, none in plain DOT; the text of
        TOML in which the graph stands, None where it is the file itself.

    Raises:
        ConfigError: it does not parse, its graph stands elsewhere, or its form is not edited.
    """
    if form == "dot":
        return DotEdits(text, file), TomlTables(Document({}, {}, file, text)), None
    if form != "toml":
        raise mistake(file, None, _refuse_edit(form))
    document = read_toml(text, file)
    tables = TomlTables(document)
    if not _has_dot(document):
        return NativeEdits(document), tables, None
    string = TomlString(text, *value_span(text, _GRAPHCONF))
    return DotEdits(string.text, file, string.line), tables, string


def _has_dot(document: Document) -> bool:
    section = document.values.get("graph")
    graph = section if isinstance(section, Mapping) else {}
    if path := graph.get("graphconffilepath"):
        raise document.mistake(
            ("graph", "graphconffilepath"),
            f"graphconffilepath: the graph stands in {path!r}; edit that file",
        )
    if isinstance(graph.get("graphconf"), list):
        raise document.mistake(
            _GRAPHCONF,
            "graphconf: is a list of lines, which is not edited; write it as one text: "
            "modelflow convert FILE -o NEW.toml --format graphviz",
        )
    return bool(graph.get("graphconf"))


def _refuse_edit(form: str) -> str:
    if form in ("yaml", "json"):
        reason = "its comments would be lost" if form == "yaml" else "only TOML and DOT are"
        return (
            f"{form.upper()} is not edited: {reason}; write the graph as TOML first: modelflow "
            "convert FILE -o NEW.toml"
        )
    return f"form: got {form!r}; expected toml or dot{did_you_mean(form, ('toml', 'dot'))}"
