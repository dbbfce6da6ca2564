# `make demo` and `make test` do all the set-up; they need Python 3.11+ with venv and nothing else.
# `make test` also gets a Chromium and a Java where it can; see tools/get_tools.py.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/.tools

.PHONY: demo docs test check campaign constraints format clean

# The tested versions where they can be had, else whatever pyproject.toml allows. Python compiles
# what is imported: compiling all that is installed takes pip longer than installing it.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]' --editable lab
$(INSTALLED): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("stamo needs Python 3.11 or newer, this is %d.%d; set PYTHON=..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint constraints.txt || $(INSTALL)
	touch $@

$(TOOLS): $(INSTALLED) tools/get_tools.py
	@$(BIN)/python tools/get_tools.py
	@touch $@

## demo: generate a small world and run the main job on it from end to end
demo: $(INSTALLED)
	$(BIN)/stamo demo demo

## docs: the documentation as a site, in build/site
docs: $(INSTALLED)
	$(BIN)/mkdocs build --strict

## test: format, lint, types and all tests
test: check $(TOOLS)
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(INSTALLED)
	$(BIN)/ruff format --check src lab tests tools conftest.py
	$(BIN)/ruff check src lab tests tools conftest.py
	$(BIN)/mypy

## campaign: attack every reader, file and route for ten minutes; a night: -m stamo_lab.campaign --hours 8
campaign: $(INSTALLED)
	$(BIN)/python -m stamo_lab.campaign

## constraints: write down the versions that are installed, after the tests have passed with them
constraints: $(INSTALLED)
	$(BIN)/python -m tools.constraints

format: $(INSTALLED)
	$(BIN)/ruff format src lab tests tools conftest.py
	$(BIN)/ruff check --fix src lab tests tools conftest.py

clean:
	rm -rf $(VENV) demo build dist compared .pytest_cache .mypy_cache .ruff_cache
