"""What ``modelflow ray serve`` sends to the machines that its servers are on."""

from modelflow.cli.ray_serve import _sent

GIVEN = {"drain_delay": 5.0, "on": "processes", "share": None}


def test_archives_of_one_name_in_two_folders_are_two_archives(tmp_path):
    words = []
    for model, content in (("one", b"1"), ("two", b"2"), ("again", b"1")):
        path = tmp_path / model / "app.mfz"
        path.parent.mkdir()
        path.write_bytes(content)
        words.append(f"{model}={path}")
    sent, archives = _sent(words, GIVEN, "name")
    models = dict(word.split("=") for word in sent if not word.startswith("-"))
    assert {model: archives[name] for model, name in models.items()} == {
        "one": b"1",
        "two": b"2",
        "again": b"1",
    }
