# Two commands matter to a newcomer: `make run` and `make test`. Both set up .venv by themselves.
#   make test EXTRAS=torch     also installs PyTorch, so that its tests run instead of skipping
#   make test PYTHON=python3.13
PYTHON ?= python3.11
EXTRAS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test lint setup clean

run: setup
	@$(BIN)/python examples/tour.py

test: lint
	$(BIN)/python -m pytest -n auto

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(VENV)/ready $(EXTRAS:%=$(VENV)/extra-%)

$(VENV)/ready: requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements/dev.txt
	$(PIP) --no-build-isolation --no-deps --editable .
	touch $@

$(VENV)/extra-%: requirements/%.txt $(VENV)/ready
	$(PIP) -r $<
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
