# Commands of the book. `make` lists them; each but `venv` and `clean` first makes the environment.

PYTHON ?= $(firstword $(foreach p,.venv/bin/python python3.11 python3.12 python3.13 python3,$(if $(call fits,$p),$p)))
fits = $(shell $(1) -c 'import sys; print("yes" if (3, 11) <= sys.version_info < (3, 14) else "")' 2>/dev/null)

BIN := .venv/bin
SCALE ?= laptop
CHAPTERS ?= all
SEEDS ?= 0
JOBS ?=
# Tests run two at a time: one thread each.
PYTEST := LABBOOK_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile
need = $(if $($(1)),,$(error $(1) is missing: make $@ $(2)))

.NOTPARALLEL:
.PHONY: help venv python book run batch execute chapter test lint unit notebooks site bench clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: .venv/.installed  ## make the environment in .venv

python:
	$(if $(call fits,$(PYTHON)),,$(error Python 3.11, 3.12 or 3.13 is needed$(if $(PYTHON), and $(PYTHON) is none of them): make venv PYTHON=/path/to/python3.11))

.venv/.installed: requirements.txt constraints.txt pyproject.toml | python
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt -c constraints.txt
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps -e .
	touch $@

book: venv  ## execute the notebooks that changed, render the site to _build/html
	$(BIN)/python -m labbook.authoring execute-stale
	@# After a warning all pages are read again: Sphinx reports a warning only once.
	$(BIN)/jupyter-book build . -W -n --keep-going || { rm -rf _build/.doctrees; exit 1; }

run: venv  ## run all chapters at laptop scale into runs/, two at a time
	$(BIN)/snakemake --cores all --config scale=laptop chapters=all seeds=0 jobs=2

batch: venv  ## run SCALE= CHAPTERS=a,b SEEDS=0,1 JOBS= into runs/
	$(BIN)/snakemake --cores all --config scale=$(SCALE) chapters=$(CHAPTERS) seeds=$(SEEDS) $(JOBS:%=jobs=%)

execute: venv  ## run the notebook of CHAPTER= in place
	$(call need,CHAPTER,CHAPTER=relaycaching)
	$(BIN)/python -m labbook.authoring execute $(CHAPTER)

chapter: venv  ## begin a chapter: SLUG= PART= TITLE="..."
	$(call need,SLUG,SLUG=name PART=folder TITLE="...")
	$(BIN)/python -m labbook.authoring new "$(SLUG)" "$(PART)" "$(TITLE)"

test: lint unit notebooks site  ## all tests, in four steps that can be called alone

lint: venv  ## the form of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

unit: venv  ## the package, the chapters' code, the contract, the batch
	$(PYTEST) --ignore tests/test_site.py tests

notebooks: venv  ## execute each notebook and compare what must repeat
	@# With no notebook in the table of contents there is nothing to run.
	set -e; found=$$($(BIN)/python -c 'from labbook import chapters as c; print(*c.notebooks().values())'); \
	test -z "$$found" || $(PYTEST) --nbval-lax $$found

site: venv  ## the rendered site, in a browser
	$(BIN)/python -m pytest tests/test_site.py

bench: venv  ## compare the method of CHAPTER= with its peers
	$(call need,CHAPTER,CHAPTER=relaycaching)
	$(if $(wildcard benchmarks/bench_$(CHAPTER).py),,$(error there is no benchmarks/bench_$(CHAPTER).py))
	$(BIN)/python benchmarks/bench_$(CHAPTER).py

clean:  ## remove what was rendered; .venv, runs/ and the cache stay
	rm -rf _build book/_generated .pytest_cache .ruff_cache
