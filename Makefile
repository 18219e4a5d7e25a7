# Two commands set up a fresh machine: `make demo` and `make check`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A file's tests stay together: they share what is made once for all of them.
PYTEST := $(BIN)/pytest -q -n auto --maxprocesses 4 --dist loadfile

# The library is packages/maci2; baselines, experiments and training are packages/maci2-lab.
.PHONY: demo check docs docs-serve setup format test-more soak bench clean

demo: $(VENV)/.installed
	$(BIN)/maci2 compile
	$(BIN)/maci2 demo

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check packages tests
	$(BIN)/ruff check packages tests
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
	$(BIN)/pytest -q -o addopts=--strict-markers --benchmark-only tests/lab/benchmarks

format: $(VENV)/.installed-dev
	$(BIN)/ruff format packages tests
	$(BIN)/ruff check --fix packages tests

setup: $(VENV)/.installed-dev

PIP := $(BIN)/pip install --quiet --disable-pip-version-check

# The library alone.
$(VENV)/.installed: packages/maci2/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e packages/maci2
	touch $@

# The library, the lab and what checks them. torch first: a plain `torch` brings gigabytes.
$(VENV)/.installed-dev: $(VENV)/.installed packages/maci2-lab/pyproject.toml pyproject.toml
	$(PIP) torch==2.13.0
	$(PIP) -e "packages/maci2[dev,docs,report,dask,viewer]" -e "packages/maci2-lab[train,bench]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) -e "packages/maci2[docs]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache site
