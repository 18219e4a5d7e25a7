# Two commands set up a fresh machine: `make demo` and `make check`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A file's tests stay together: they share what is made once for all of them.
PYTEST := $(BIN)/pytest -q -n auto --maxprocesses 4 --dist loadfile

.PHONY: demo check docs docs-serve setup format test-more soak bench clean

demo: $(VENV)/.installed
	$(BIN)/maci2 compile
	$(BIN)/maci2 demo

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy
	$(BIN)/maci2 compile
	$(PYTEST)

# What `check` leaves out: many windows, and real recordings (skipped where there are none).
test-more: $(VENV)/.installed-dev
	$(PYTEST) -m "(slow or dataset) and not soak"

# What takes an hour: every reader against thousands of damaged files, hundreds of recordings.
soak: $(VENV)/.installed-dev
	$(PYTEST) -m soak

# The documentation site, to be read at site/index.html.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The same with search, which browsers allow only to pages that come from a server.
docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000

bench: $(VENV)/.installed-dev
	$(BIN)/maci2 bench
	$(BIN)/pytest -q -o addopts=--strict-markers --benchmark-only tests/benchmarks

format: $(VENV)/.installed-dev
	$(BIN)/ruff format src tests
	$(BIN)/ruff check --fix src tests

setup: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev,train,report,dask,docs,viewer]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache site
