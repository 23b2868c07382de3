# `make demo` and `make test` work from a fresh clone: each first installs what it needs, and no more.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One stamp for each set of extras that is installed. The test set holds all the others.
READY_DEMO := $(VENV)/.ready-demo
READY_CLI := $(VENV)/.ready-cli
READY := $(VENV)/.ready-test
READY_BENCH := $(VENV)/.ready-bench
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL := $(PIP) --editable
# Of PyTorch this version first: others bring gigabytes of libraries for graphics processors along.
TORCH := torch==2.13.0

# The only place that knows of a folder with data beside the project; it need not exist.
ifneq ($(wildcard ../shared/data),)
export PDMM_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help setup demo test test-fast coverage lint bench reproduce clean

help:
	@echo "make demo    fit a real table with six sites, then run all methods on the paper's problem"
	@echo "make test    lint, types, tests and doctests"
	@echo "make test-fast   tests that need neither patience nor other processes, and doctests (a minute)"
	@echo "make coverage    which lines the tests run, without those of a real federation"
	@echo "make bench   speed and memory against plain NumPy, tables, auto against tuned methods, MPI, FLARE (long)"
	@echo "make reproduce   the paper's figures and table at full size (long)"
	@echo "make clean   remove the environment and all that was generated"

setup: $(READY)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "pdmm needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { apt-get update -q && apt-get install -q -y python3-venv \
		&& $(PYTHON) -m venv $(VENV); }

$(READY_DEMO): pyproject.toml | $(BIN)/python
	$(INSTALL) '.[demo]'
	@touch $@

$(READY_CLI): pyproject.toml | $(BIN)/python
	$(INSTALL) '.[cli]'
	@touch $(READY_DEMO) $@

$(READY_BENCH): pyproject.toml | $(READY)
	$(INSTALL) '.[bench]'
	@touch $@

$(READY): pyproject.toml | $(BIN)/python
	$(PIP) '$(TORCH)'
	$(INSTALL) '.[cli,mpi,flare,dev]'
	@touch $(READY_DEMO) $(READY_CLI) $@

demo: $(READY_DEMO)
	$(BIN)/pdmm demo --out out

# Two at a time, whole files together: some wait for other processes, and those share what they start.
# tests/conftest.py says which files come first; they must not be put in another order.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: lint
	$(PYTEST)

test-fast: setup
	$(PYTEST) -m "not slow and not mpi and not flare" tests src

# What other processes run is not measured.
coverage: setup
	$(PYTEST) -m "not mpi and not flare" --cov=pdmm --cov-report= tests src
	@echo 'The ten files of which the least is run, and the total:'
	@$(BIN)/python -m coverage report --sort=cover | sed -n '1,12p;$$p'

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

reproduce: $(READY_CLI)
	$(BIN)/pdmm reproduce all --out out/reproduction

bench: $(READY_BENCH)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
