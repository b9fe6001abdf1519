# Two commands for newcomers: `make demo` and `make test`. Each sets up .venv on its own.
# --no-compile: bytecode of what is used appears on first use; all of it would take 120 MB more and a minute.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help demo test check docs bench picture size clean

help:
	@echo "make demo    set up, analyse the embedded example, write a report"
	@echo "make test    set up, check style and types, run all tests"
	@echo "make docs    build the documentation and say where it is"
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
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n 2

docs: $(VENV)/.dev
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
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
