"""Writes unit folders and graphs in ModelBox's form."""

import textwrap


def unit(folder, name, cls, code, inputs, outputs, **base):
    """Writes ``folder/name/name.toml`` and ``name.py``; ``base`` has more keys of ``[base]``."""
    place = folder / name
    place.mkdir(parents=True)
    more = "".join(f"{key} = {str(value).lower()}\n" for key, value in base.items())
    ports = "".join(
        f'[{side}]\n' + "".join(
            f'[{side}.{side}{number}]\nname = "{port}"\ntype = "float"\n'
            for number, port in enumerate(ports, 1)
        )
        for side, ports in (("input", inputs), ("output", outputs))
    )  # fmt: skip
    (place / f"{name}.toml").write_text(
        f'[base]\nname = "{name}"\ndevice = "cpu"\nversion = "1.0.0"\ndescription = "a unit"\n'
        f'entry = "{name}@{cls}"\ntype = "python"\ngroup_type = "generic"\n{more}[config]\n{ports}'
    )
    (place / f"{name}.py").write_text(textwrap.dedent(code))
    return place


def graph(folder, nodes, more=""):
    """Writes a graph whose units are in ``folder``; returns its path."""
    path = folder / "graph.toml"
    path.write_text(
        f'[driver]\nskip-default = false\ndir = ["{folder}"]\n[profile]\nprofile = false\n'
        f"[graph]\nformat = \"graphviz\"\ngraphconf = '''digraph demo {{\n{nodes}\n}}'''\n{more}"
    )
    return path
