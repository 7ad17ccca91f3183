"""Plain Papermill on a notebook: `labbook.start` stops what Papermill lets pass."""

import pytest
import tinybook

START = "import labbook\nrun = labbook.start('tiny', globals())"
USE = "print('used', lr, run.seeds)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("papermill")
    tinybook.write(top, {"tiny": tinybook.notebook(START, USE)})
    (top / "params.yaml").write_text("scale: gpu\nlr: 2\nn_seeds: 3\n")
    (top / "string.yaml").write_text("lr: 1e-4\n")
    (top / "bare.ipynb").write_text(tinybook.notebook(START, parameters=None))
    (top / "untagged.ipynb").write_text(
        tinybook.notebook(tinybook.PARAMETERS, START, USE, parameters=None)
    )
    return top


def papermill(top, *arguments, source="book/inference/tiny.ipynb"):
    return tinybook.call(top, "papermill", source, "out.ipynb", "--no-progress-bar", *arguments)


def test_file_and_single_values(folder):
    done = papermill(folder, "-f", "params.yaml", "-p", "seed", "4", "-p", "n_seeds", "2")
    assert done.returncode == 0, done.stderr
    shown = tinybook.printed(folder / "out.ipynb")
    assert "tiny at scale gpu" in shown and "used 2.0 [4000, 4001]" in shown


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        ("tiny", ["-p", "speed", "3"], "unknown parameter speed; this chapter knows scale, seed"),
        ("tiny", ["-p", "seed", "1.5"], "parameter seed = 1.5 is float, expected int"),
        ("tiny", ["-f", "string.yaml"], "expected float; in YAML write 1.0e-4"),
        ("tiny", ["-p", "scale", "huge"], "unknown scale 'huge'; choose one of laptop"),
        ("bare", ["-p", "seed", "1"], "no complete parameters cell"),
        ("untagged", ["-p", "seed", "1"], "lacks the tag 'parameters'"),
    ],
)
def test_wrong_parameters_stop_the_notebook(folder, source, arguments, message):
    file = "book/inference/tiny.ipynb" if source == "tiny" else f"{source}.ipynb"
    done = papermill(folder, *arguments, source=file)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("BookError: ") and message in last
    assert "used" not in tinybook.printed(folder / "out.ipynb")
