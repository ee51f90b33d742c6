"""Folders that are written whole or not at all."""

import pytest

from modelflow.files.whole_folder import whole_folder


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_new_or_empty_folder_is_filled(is_there, tmp_path):
    place = tmp_path / "deep" / "place"
    if is_there:
        place.mkdir(parents=True)
    with whole_folder(place) as draft:
        (draft / "a").mkdir()
        (draft / "a" / "b").write_text("x")
        assert not place.exists() or names(place) == []
    assert names(place) == ["a", "a/b"]
    assert names(tmp_path / "deep") == ["place", "place/a", "place/a/b"]


def test_where_the_block_fails_nothing_is_left(tmp_path):
    with pytest.raises(KeyError), whole_folder(tmp_path / "place") as draft:
        (draft / "a").write_text("x")
        raise KeyError
    assert names(tmp_path) == []


def test_what_is_there_is_not_written_over(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    (tmp_path / "file").write_text("x")
    before = names(tmp_path)
    for name in ("full", "file"):
        with pytest.raises(FileExistsError), whole_folder(tmp_path / name):
            pytest.fail("it was given a folder")
    assert names(tmp_path) == before


def test_by_force_files_of_the_same_names_are_replaced_and_others_stay(tmp_path):
    place = tmp_path / "place"
    (place / "a").mkdir(parents=True)
    for name in ("a/b", "mine"):
        (place / name).write_text("before")
    with whole_folder(place, is_forced=True) as draft:
        (draft / "a").mkdir()
        (draft / "a" / "b").write_text("behind")
        (draft / "c").write_text("behind")
    assert {name: (place / name).read_text() for name in ("a/b", "mine", "c")} == {
        "a/b": "behind",
        "mine": "before",
        "c": "behind",
    }
    assert names(tmp_path) == ["place", "place/a", "place/a/b", "place/c", "place/mine"]


def test_a_file_never_takes_the_place_of_a_folder(tmp_path):
    (tmp_path / "place" / "a").mkdir(parents=True)
    with pytest.raises(FileExistsError), whole_folder(tmp_path / "place", is_forced=True) as draft:
        (draft / "A").write_text("x")
        (draft / "a").write_text("x")
    assert names(tmp_path) == ["place", "place/a"]
