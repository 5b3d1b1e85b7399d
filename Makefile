# Everything runs from `.venv`, which `make setup` makes. Nothing else is needed first but Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup servers schedulers axe demo test test-long fast lint docs bench simulate clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt scripts/setup
	PYTHON=$(PYTHON) scripts/setup
	touch $@

servers: setup
	scripts/servers

# The accessibility checks of the dashboard, where npm can have them.
axe:
	scripts/axe

schedulers: .schedulers/ready

.schedulers/ready: scripts/schedulers scripts/schedulers.txt
	PYTHON=$(PYTHON) scripts/schedulers
	touch $@

demo: setup
	$(BIN)/tidegauge demo

# File by file, so that what a file's tests share is made once; in the order of tests/conftest.py, the quick ones
# last, so that no process is idle at the end. More processes than two cores need, since many tests wait.
SPREAD := --dist loadfile --no-loadscope-reorder

# The tests compiled once, instead of by every test process for itself. What cannot be compiled, the run itself tells.
.venv/compiled: .venv/ready
	$(BIN)/pytest -q --collect-only >/dev/null || true
	touch $@

# Every test process keeps what it has compiled for the others.
test test-long fast: export PYTHONDONTWRITEBYTECODE :=

test: setup
	$(MAKE) -j4 servers schedulers axe .venv/compiled
	$(BIN)/pytest -n 5 $(SPREAD) --durations=40 -o faulthandler_timeout=1500 -m "not long"

test-long: setup servers
	$(BIN)/pytest -n 4 $(SPREAD) --durations=40 -m long

fast: setup
	$(BIN)/pytest -n 2 -m unit

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup
	$(BIN)/python scripts/reference.py

bench: setup servers
	$(BIN)/python -m bench

# `make simulate N=1000000`: that many schedules of the protocol's simulation.
N ?= 20000
simulate: setup
	$(BIN)/python -m simulation --schedules $(N)

clean:
	rm -rf .venv .schedulers .axe build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
