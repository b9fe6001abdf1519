# Two commands for newcomers: `make demo` and `make test`. Each sets up .venv on its own.
# --no-compile: bytecode of what is used appears on first use; all of it would take 120 MB more and a minute.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Two processes; tests of one file stay together, which share what is costly to prepare, until one runs out of work.
PYTEST := -m pytest -n 2 --dist worksteal

# What one runs before a commit: no browser, no built docs, no killed processes, no cluster, nothing slow.
QUICK  := not (browser or docs or faults or dask or slow)

.PHONY: help demo test quick check warm docs bench picture size clean other lowest dist coverage

help:
	@echo "make demo    set up, analyse the embedded example, write a report"
	@echo "make test    set up, check style and types, run all tests"
	@echo "make quick   run the tests that take no time: two minutes"
	@echo "make docs    check the numbers on its pages, build the documentation"
	@echo "make other   test with another Python: make other PYTHON=python3.14"
	@echo "make lowest  test with the oldest packages that pyproject.toml allows"
	@echo "make dist    build wheel and sdist, and look at them"
	@echo "make bench   measure the solvers against named floors and peers"

$(VENV)/.runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "diffdag needs Python 3.11 or newer; run: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.runtime
	$(BIN)/diffdag demo

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 12))'; then echo $(BIN)/mypy; $(BIN)/mypy; \
	  else echo "types: checked with Python 3.11 only, because newer Pythons bring other stubs"; fi

# Both test processes need the same compiled functions: they are compiled once, while style and types are checked.
warm: $(VENV)/.dev
	$(BIN)/python tests/support/warm.py

test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 check warm
	$(BIN)/python $(PYTEST)

quick: warm
	$(BIN)/python $(PYTEST) -m "$(QUICK)"

# The same tests with another Python, in an environment of its own.
other: OTHER := build/$(notdir $(PYTHON))
other:
	$(PYTHON) -m venv $(OTHER)
	$(OTHER)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	NUMBA_CACHE_DIR=$(CURDIR)/$(OTHER)/numba $(OTHER)/bin/python $(PYTEST) -m "not slow"

# What users install is old, the tools of the tests are new. Old releases warn of what new ones do.
lowest: LOWEST := build/lowest
lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip compile --quiet --resolution lowest-direct --no-build --python $(LOWEST)/bin/python \
	  --extra cells --extra compare --extra dask --extra polars --output-file $(LOWEST)/lowest.txt pyproject.toml
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --constraint $(LOWEST)/lowest.txt --editable '.[dev]'
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/bin/python $(PYTEST) -m "not slow" -W ignore::DeprecationWarning -W ignore::FutureWarning

dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

# Compiled code leaves no trace: its tests run a second time as plain Python.
coverage: $(VENV)/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST)
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run $(PYTEST) $(wildcard tests/*/test_*_details.py) tests/ordersearch/test_walks.py
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

docs: $(VENV)/.dev
	$(BIN)/python -m pytest -q docs/checks
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "Open build/docs/index.html in a browser."

bench: $(VENV)/.dev
	cd benchmarks && ../$(BIN)/python population.py
	cd benchmarks && ../$(BIN)/python weights.py
	cd benchmarks && ../$(BIN)/python order.py
	cd benchmarks && ../$(BIN)/python order_checks.py
	cd benchmarks && ../$(BIN)/python robust.py
	cd benchmarks && ../$(BIN)/python scale.py
	$(BIN)/python docs/make_benchmarks.py

picture: $(VENV)/.dev
	$(BIN)/python docs/make_picture.py

size: $(VENV)/.runtime
	@du -sm --exclude=pip --exclude=setuptools --exclude=pkg_resources $(VENV)/lib/python3*/site-packages

clean:
	rm -rf $(VENV) build .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
