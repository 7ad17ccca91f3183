"""The batch: chapters x seeds, failures, interruptions, resuming, wrong input."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tinybook

from labbook.errors import BookError

WORKFLOW = Path(__file__).parents[1] / "workflow"
sys.path.insert(0, str(WORKFLOW))
import run_chapter  # noqa: E402

SNAKEMAKE = ("snakemake", "-s", str(WORKFLOW / "Snakefile"), "--cores", "2", "--config")
SAYS = "import os\nprint(scale, seed, lr, os.environ['LABBOOK_THREADS'], os.getcwd())"
# These stop half-way until the file `repaired` is there.
UNLESS = "from pathlib import Path\nif not Path('repaired').exists():\n    "
RAISES = UNLESS + "raise ValueError('half-way\\nsecond line')"
DIES = UNLESS + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
SLEEPS = UNLESS + "import time; print('asleep', flush=True); time.sleep(60)"


def batch(top: Path, *settings: str):
    """Snakemake on the book below `top`, to its end."""
    return tinybook.call(top, *SNAKEMAKE, *settings)


def files(top: Path) -> list[str]:
    """What is below runs/, without the logs."""
    found = [p for p in (top / "runs").rglob("*") if p.is_file() and p.suffix != ".log"]
    return sorted(p.relative_to(top / "runs").as_posix() for p in found)


def test_two_chapters_two_seeds(tmp_path):
    top = tinybook.write(tmp_path, {slug: tinybook.notebook(SAYS) for slug in ("one", "two")})
    done = batch(top, "seeds=0,1")
    assert done.returncode == 0, done.stderr
    expected = [f"laptop/{slug}/seed{k}.ipynb" for slug in ("one", "two") for k in (0, 1)]
    assert files(top) == expected
    # Two at a time on two cores: one thread each; and from the folder of the book.
    assert tinybook.printed(top / "runs" / expected[1]) == f"laptop 1 0.5 1 {top}\n"
    assert "one laptop seed 1: 3 of 3 cells" in done.stderr
    log = (top / "runs/laptop/one/seed1.log").read_text()
    assert "laptop 1 0.5 1" in log and "finished after" in log

    # Again, with other code in one chapter: that one.
    (top / "book/inference/two.ipynb").write_text(tinybook.notebook(SAYS, "1 + 1"))
    planned = batch(top, "seeds=0,1", "-n")
    assert "chapter        2" in planned.stdout + planned.stderr


def test_failures_leave_the_others_alone_and_are_run_again(tmp_path):
    cells = {"good": SAYS, "dies": DIES, "raises": RAISES}
    books = {slug: tinybook.notebook("print('begun')", cell) for slug, cell in cells.items()}
    top = tinybook.write(tmp_path, books)
    failing = batch(top, "chapters=all", "seeds=0")
    assert failing.returncode != 0
    assert files(top) == [
        "laptop/dies/seed0.failed.ipynb",
        "laptop/good/seed0.ipynb",
        "laptop/raises/seed0.failed.ipynb",
    ]
    lines = [x for x in failing.stderr.splitlines() if x.startswith("labbook:") and "failed" in x]
    assert sorted(x.split("(")[0] for x in lines) == [
        "labbook: dies laptop seed 0 failed ",
        "labbook: raises laptop seed 0 failed ",
    ]
    assert "(ValueError: half-way); log: runs/laptop/raises/seed0.log" in failing.stderr
    assert "DeadKernelError" in failing.stderr
    assert tinybook.printed(top / "runs/laptop/raises/seed0.failed.ipynb") == "begun\n"
    assert "second line" in (top / "runs/laptop/raises/seed0.log").read_text()

    good = top / "runs/laptop/good/seed0.ipynb"
    before = good.stat().st_ino
    (top / "repaired").touch()
    done = batch(top, "chapters=all", "seeds=0")
    assert done.returncode == 0, done.stderr
    assert files(top) == [f"laptop/{slug}/seed0.ipynb" for slug in ("dies", "good", "raises")]
    assert good.stat().st_ino == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_batch_is_resumed(tmp_path, number):
    books = {"good": tinybook.notebook("1 + 1"), "sleeps": tinybook.notebook(SLEEPS)}
    top = tinybook.write(tmp_path, books)
    process = subprocess.Popen(
        [tinybook.program("snakemake"), *SNAKEMAKE[1:], "jobs=2"],
        cwd=top,
        env=tinybook.environment(top),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    finished, log = top / "runs/laptop/good/seed0.ipynb", top / "runs/laptop/sleeps/seed0.log"
    wait_for(lambda: finished.exists() and log.exists() and "asleep" in log.read_text())
    before = finished.stat().st_ino
    os.killpg(process.pid, number)
    assert process.wait(timeout=20) != 0
    if number != signal.SIGKILL:
        wait_for(lambda: "stopped by signal" in log.read_text())
        partial = ["laptop/sleeps/seed0.failed.ipynb"]
        wait_for(lambda: files(top) == ["laptop/good/seed0.ipynb", *partial])
    (top / "repaired").touch()
    done = batch(top)
    assert done.returncode == 0, done.stderr
    assert files(top) == ["laptop/good/seed0.ipynb", "laptop/sleeps/seed0.ipynb"]
    assert finished.stat().st_ino == before


def wait_for(condition) -> None:
    """Until it is true, at most half a minute."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A book that is never run: its settings are checked before."""
    chapters = {
        "one": tinybook.notebook("1 + 1"),
        "bare": tinybook.notebook("1 + 1", parameters=None),
        "seedless": tinybook.notebook("1 + 1", parameters='scale: str = "laptop"  # size'),
    }
    top = tinybook.write(tmp_path_factory.mktemp("book"), chapters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABBOOK_ROOT", str(top))
        yield top


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chapters": "nope"}, "unknown chapter 'nope'; the book has: one, bare, seedless"),
        ({"chapters": "one", "scale": "big"}, "unknown scale 'big'; choose one of laptop, study"),
        ({"chapters": "one", "scale": "gpu"}, "book/params/gpu/one.yaml: there is no such file"),
        ({"chapters": "one", "seeds": "0,x"}, "seeds=x is not a whole number of at least 0"),
        ({"chapters": "one", "seeds": 1.5}, "seeds=1.5 is not a whole number of at least 0"),
        ({"chapters": "one", "jobs": 0}, "jobs=0 is not a whole number of at least 1"),
        ({"chapter": "one"}, "unknown setting chapter; use scale, chapters, seeds, jobs"),
        ({"chapters": None}, "nothing to run"),
        ({"chapters": "bare"}, "bare: the notebook has 0 cells tagged 'parameters'"),
        ({"chapters": "seedless"}, "seedless: unknown parameter seed; the chapter knows scale"),
    ],
)
def test_wrong_settings(book, settings, message):
    with pytest.raises(BookError, match=message) as caught:
        run_chapter.batch(settings)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scale: study\nspeed: 3\n", "unknown parameter speed; the chapter knows scale, seed"),
        ("scale: study\nlr: 1e-4\n", "lr = '1e-4' is str, expected float; in YAML write 1.0e-4"),
        ("scale: study\nn_seeds: true\n", "n_seeds = True is bool, expected int"),
        ("lr: 0.1\n", "it must contain the line 'scale: study'"),
        ("scale: gpu\n", "it must contain the line 'scale: study'"),
        ("- scale\n", "it must consist of lines 'name: value'"),
        ("scale: [\n", "cannot be read"),
    ],
)
def test_wrong_parameter_files(book, text, message):
    file = book / "book/params/study/one.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    with pytest.raises(BookError, match=f"^book/params/study/one.yaml: .*{message}") as caught:
        run_chapter.batch({"chapters": "one", "scale": "study"})
    assert len(str(caught.value).splitlines()) == 1


def test_settings_as_snakemake_passes_them(book):
    file = book / "book/params/gpu/one.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("scale: gpu\nlr: 2\n")
    many = {"scale": "gpu", "chapters": "one,one", "seeds": "0, 3", "jobs": 9}
    assert run_chapter.batch(many) == ("gpu", ["one"], [0, 3], 2)
    assert run_chapter.batch({"chapters": "one", "seeds": 5}) == ("laptop", ["one"], [5], 1)
    assert run_chapter.parameters("one", "gpu", 3) == {"scale": "gpu", "lr": 2.0, "seed": 3}


def test_wrong_settings_stop_the_batch_in_one_line(book):
    done = batch(book, "scale=laptop", "chapters=one,nope")
    lines = [line for line in done.stderr.splitlines() if line.startswith("labbook:")]
    assert done.returncode != 0 and len(lines) == 1 and "Traceback" not in done.stderr
    assert not (book / "runs").exists()


def test_wrong_settings_stop_a_single_run(book, capsys):
    assert run_chapter.main(["nope", "laptop", "0", str(book / "runs/out.ipynb")]) == 1
    assert capsys.readouterr().err.startswith("labbook: unknown chapter 'nope'")
    assert not (book / "runs").exists()
