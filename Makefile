# Every target builds what it needs. The first one also sets up .venv (once; this takes a few minutes).
#
#   make train    train Cartpole (about 10 s)       make test       the quick tests (5 min)
#   make watch    watch it at localhost:58080       make test-slow  whole processes, kills, copies (minutes)
#   make bench    speed beside the bare physics     make check      lint, types, structure
#   make docs     the documentation as a site       make test-full  all tests, those of many minutes too
#
# PYTHON chooses the interpreter (3.11 or newer):  make train PYTHON=python3.12

# Compiled modules are kept, also where the environment says otherwise: pytest compiles the tests again each time if not.
unexport PYTHONDONTWRITEBYTECODE

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
# Errors are shown, and only those: setuptools warns at length of any editable installation.
PIP := PYTHONWARNINGS=ignore $(RUN) -m pip --quiet --disable-pip-version-check
PACKAGES := $(patsubst %/__init__.py,%,$(filter-out livegym/% tests/% benchmarks/% tools/%,$(wildcard */__init__.py)))

.DEFAULT_GOAL := help
.PHONY: help setup train watch test test-slow test-slow-shared test-slow-alone test-full check types farm format bench docs clean

help:
	@sed -n '/^#   make/s/^#   //p' Makefile

train: $(READY)
	$(RUN) train.py config=train_headless task=Cartpole
	@echo "Next: make watch (the policy on a page), or source $(VENV)/bin/activate && python train.py --help"

watch: $(READY)
	$(RUN) train.py config=test_stream testGamesNum=0 checkpoint=latest

test: $(READY) programs
	$(RUN) -m pytest -m "not slow" -n auto

test-slow: test-slow-shared test-slow-alone

test-slow-shared: $(READY) programs
	$(RUN) -m pytest -m "slow and not alone and not full" -n 2 --dist loadfile --durations=25

test-slow-alone: $(READY) programs
	$(RUN) -m pytest -m "slow and alone and not full" --durations=25

test-full: test test-slow
	$(RUN) -m pytest -m full

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(MAKE) types
	$(RUN) -m pytest tests/test_house.py

types: $(READY) farm
	cd .types && ../$(VENV)/bin/mypy --config-file ../pyproject.toml -p livegym
	cd clients/python && ../../$(VENV)/bin/mypy --config-file ../../pyproject.toml -p livegym_client

# Tools that read code without running it do not follow `livegym.__path__`, so this builds the package as installed.
farm:
	rm -rf .types && mkdir -p .types/livegym
	@for part in livegym/*.py $(PACKAGES) train.py; do \
	  ln -s "$(CURDIR)/$$part" .types/livegym/; done

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(READY)
	$(PIP) install --constraint constraints.txt --editable '.[bench]'
	$(RUN) -m benchmarks.env_throughput --quick

# The variable silences a notice that mkdocs-material is maintained until May 2027 and that Zensical is its successor.
docs: $(VENV)/.ready-docs farm
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

$(VENV)/.ready-docs: $(READY)
	$(PIP) install --constraint constraints.txt --editable '.[docs]'
	@touch $@

setup: $(READY)

$(READY): setup.py constraints.txt clients/python/pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "livegym needs Python 3.11 or newer; '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "Python's venv module is missing. Try: sudo apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV), once, in a few minutes. 1 of 3: the environment and pip"
	@"$(PYTHON)" -m venv $(VENV)
	@$(PIP) install --upgrade pip
	@echo "2 of 3: PyTorch, the largest part"
	@$(PIP) install --constraint constraints.txt torch
	@echo "3 of 3: MuJoCo and the other libraries, and livegym"
	@$(PIP) install --constraint constraints.txt --editable '.[dev]' --editable clients/python
	@touch $(READY)

# Programs that the tests call.
.PHONY: programs
programs:
	@missing=; for tool in git rsync unison scp cc; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ]; then \
	  echo "the tests also run:$$missing. Try: sudo apt-get install git rsync unison openssh-client gcc libc6-dev" >&2; exit 1; fi

clean:
	rm -rf $(VENV) .types site build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
