# Parallab's few commands; `make` alone lists them. Any Python from 3.11 on will do: make run PYTHON=python3.12
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help install install-dev run stop test test-quick test-long test-stress fault-matrix tour check format bench lock licences try-image clean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
PORT ?=
# Compiled files are kept even where the environment says otherwise: each of the many processes would compile the product anew.
export PYTHONDONTWRITEBYTECODE :=

help: ## List the commands
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

install: $(VENV)/.installed ## Make .venv and install what Parallab needs

install-dev: $(VENV)/.installed-dev

run: install ## Serve the console on http://127.0.0.1:8501, its runner beside it (PORT=8502 for another port)
	@exec $(BIN)/python -m app $(if $(PORT),--port $(PORT))

stop: install ## End the runner once its runs have ended
	@exec $(BIN)/python -m engine stop

test: install-dev ## Run all tests but the long ones, one more at a time than there are cores; prints the ten slowest and the total
	@$(BIN)/python -m pytest -m "not long" --numprocesses auto --dist loadscope --no-loadscope-reorder --durations 10

test-quick: install-dev ## Run the tests that start no process, no rank and no browser
	@$(BIN)/python -m pytest -q -m "not long and not browser and not processes and not ranks" --numprocesses auto --dist loadscope --no-loadscope-reorder

test-long: install-dev ## Run the tests that state a rate, a share of time or a learning result, and the rare corners
	@$(BIN)/python -m pytest -m long --timeout 1800

test-stress: install-dev ## Run all tests but the long ones while processes of theirs are stopped at random, beside two CPU hogs
	@$(BIN)/python -m tests.stress

fault-matrix: install-dev ## Kill and stop every process at every moment of a run, and write docs/fault-matrix.md
	@PARALLAB_WRITE_DOCS=1 $(BIN)/python -m pytest -m "long or not long" tests/faults/test_matrix.py

tour: install-dev ## Walk the tour of docs/tour.md in Chromium, and take its pictures anew
	@PARALLAB_WRITE_DOCS=1 $(BIN)/python -m pytest tests/browser/test_tour.py

check: install-dev ## Check format, lint, types, the architecture, and packages for published weaknesses
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_architecture.py
	@$(BIN)/hadolint Dockerfile
	@$(BIN)/python -m deploy.audit

format: install-dev ## Bring all code into the one format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: install-dev ## Say which benchmarks there are and how each is run
	@cat bench/README.md

lock: install-dev ## Write the lock files anew from requirements.txt (UPGRADE=1: every package in its newest version)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m deploy.lock

licences: install-dev ## Write docs/licences.md, and say which licence nobody has accepted yet
	@$(BIN)/python -m deploy.licences

try-image: install-dev ## Carry the Dockerfile out in folders and start what it makes (Debian, as root, with debootstrap)
	@$(BIN)/python -m deploy.try_image $(TRY)

clean: ## Remove .venv and caches; runs and their store stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A .venv that is there already is kept; requirements are installed anew only when their file changes.
$(BIN)/python:
	@python="$(PYTHON)"; \
	for candidate in $${python:-python3 python3.11 python3.12 python3.13 python3.14 python}; do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Parallab needs Python 3.11 or newer with its venv module, and $${python:-no python3 on the PATH} is that: install one (Debian: apt install python3 python3-venv) or name it with 'make run PYTHON=/path/to/python'." >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version)."; "$$found" -m venv $(VENV)

$(VENV)/.installed: requirements.txt $(wildcard locks/*.txt) | $(BIN)/python
	@$(BIN)/python -m deploy.install
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(BIN)/python -m deploy.install --dev
	@touch $@
