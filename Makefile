# `make` lists the commands. Works with Python 3.11 or newer: make run PYTHON=python3.12
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help install install-dev run stop test test-programs test-quick test-long test-gpu test-cluster test-stress fault-matrix tour check format bench lock licences plotly clean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
PORT ?=
# Always write bytecode: otherwise each of the many processes would compile all sources again.
export PYTHONDONTWRITEBYTECODE :=

help: ## List the commands
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

install: $(VENV)/.installed ## Create .venv and install the required packages

install-dev: $(VENV)/.installed-dev

run: install ## Serve the console on http://127.0.0.1:8501 and start a runner (PORT=8502 for another port)
	@exec $(BIN)/python -m app $(if $(PORT),--port $(PORT))

stop: install ## Stop the runner after its runs have ended
	@exec $(BIN)/python -m engine stop

test: install-dev ## Run all tests except the long ones and those on GPUs or Slurm, in parallel; print the ten slowest and the total time
	@$(BIN)/python -m pytest -m "not long and not cluster" --numprocesses auto --dist loadscope --no-loadscope-reorder --durations 10

test-programs: install-dev ## Run the tests that need Chromium, nginx, caddy or systemd-analyze; fail without one of them
	@PARALLAB_TEST_PROGRAMS=required $(BIN)/python -m pytest -m "needs_program and not long and not cluster" --numprocesses auto --dist loadscope --no-loadscope-reorder --durations 10 tests/browser tests/deploy

test-quick: install-dev ## Run the tests that start no processes, ranks or browser
	@$(BIN)/python -m pytest -q -m "not long and not cluster and not browser and not processes and not ranks" --numprocesses auto --dist loadscope --no-loadscope-reorder

test-long: install-dev ## Run the long tests: rates, time shares, learning results, rare cases
	@$(BIN)/python -m pytest -m long --timeout 1800

test-gpu: install-dev ## Run the tests on NVIDIA GPUs; fail if there is none
	@$(BIN)/python -c "import sys, torch; torch.cuda.is_available() or sys.exit('No NVIDIA GPU found: nothing was tested.')"
	@$(BIN)/python -m pytest -m "gpu and (long or not long)" tests/gpu

test-cluster: install-dev ## Run the tests on a real Slurm, which is installed if absent (Debian; as root, also over network namespaces)
	@.ci/slurm
	@$(BIN)/python -m pytest -m cluster tests/cluster tests/browser/charts/test_clusters.py --numprocesses 0 --durations 10 --timeout 600

test-stress: install-dev ## Run all tests except the long ones under CPU load, with processes stopped at random
	@$(BIN)/python -m tests.stress

fault-matrix: install-dev ## Kill and stop every process at each stage of a run, and write docs/fault-matrix.md
	@PARALLAB_WRITE_DOCS=1 $(BIN)/python -m pytest -m "long or not long" tests/faults/test_matrix.py

tour: install-dev ## Follow docs/tour.md in Chromium and renew its pictures
	@PARALLAB_WRITE_DOCS=1 $(BIN)/python -m pytest tests/browser/test_tour.py

check: install-dev ## Check format, lint, types, architecture, Dockerfile, and known vulnerabilities of packages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy & \
	$(BIN)/python -m pytest -q tests/test_architecture.py && $(BIN)/hadolint Dockerfile && $(BIN)/python -m deploy.audit; \
	others=$$?; wait $$! && exit $$others

format: install-dev ## Format all code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: install-dev ## List the benchmarks and their commands
	@cat bench/README.md

lock: install-dev ## Write the lock files from requirements.txt (UPGRADE=1: upgrade every package)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m deploy.lock

plotly: install-dev ## Build plotly.js with the traces that the console draws (needs npm)
	@$(BIN)/python -m deploy.plotly_bundle

licences: install-dev ## Write docs/licences.md; fail for a licence that is not accepted
	@$(BIN)/python -m deploy.licences

clean: ## Remove .venv and caches; keep runs and their store
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Keep an existing .venv; reinstall requirements only when their file changes.
$(BIN)/python:
	@python="$(PYTHON)"; \
	for candidate in $${python:-python3 python3.11 python3.12 python3.13 python3.14 python}; do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Parallab needs Python 3.11 or newer with the venv module, but $${python:-no python3 on the PATH} provides it: install one (Debian: apt install python3 python3-venv) or set it with 'make run PYTHON=/path/to/python'." >&2; exit 1; \
	fi; \
	echo "Creating $(VENV) with $$("$$found" --version)."; "$$found" -m venv $(VENV)

$(VENV)/.installed: requirements.txt $(wildcard locks/*.txt) | $(BIN)/python
	@$(BIN)/python -m deploy.install
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(BIN)/python -m deploy.install --dev
	@touch $@
