"""Tests of an archive's requirements."""

from modelflow.archive.requirements import lock_requirements


def test_the_version_of_a_local_build_is_listed_as_others_can_install_it(tmp_path, monkeypatch):
    info = tmp_path / "local_build-1.2+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: local-build\nVersion: 1.2+cpu\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert b"\nlocal-build==1.2\n" in lock_requirements((), {"local-build"})
