# `make demo` needs Python 3.11 to 3.13 and make, `make test` also Chromium (`make browser`): each creates its own virtual
# environment from the pinned versions in requirements/ and updates it when those change.

# The interpreter for new environments. The oldest supported one comes first: it is the one that the continuous
# integration tests with. Each is tried by running it, since a command can exist and not work (pyenv's shims, a Python
# without the venv module). Another one: make test PYTHON=/path/to/python
PYTHON ?=
CANDIDATES = $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3 python)
USABLE = import sys, venv, ensurepip; assert (3, 11) <= sys.version_info[:2] <= (3, 13)

# Tests in parallel: a number, or auto for one process per core, at most four (each may take 3 GB while compiling).
JOBS ?= auto
# Further arguments of pytest, e.g. make test ARGS="tests/test_package.py -x", or of the benchmarks
ARGS ?=
# Arguments of the demo, e.g. make demo ROBOT=my_robot.urdf
ROBOT ?=

BIN = .venv/bin
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist worksteal

define environment
	@set -e; found=; \
	if $(1)/bin/python -c "$(USABLE)" >/dev/null 2>&1; then exit; fi; \
	for python in $(CANDIDATES); do \
		if "$$python" -c "$(USABLE)" >/dev/null 2>&1; then found="$$python"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "No usable Python 3.11, 3.12 or 3.13 among: $(subst ",,$(CANDIDATES))." >&2; \
		echo "Install one with its venv module (on Debian and Ubuntu: apt install python3 python3-venv)," >&2; \
		echo "or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi; \
	echo "Creating $(1) with $$("$$found" --version); this takes a few minutes."; \
	"$$found" -m venv --clear $(1)
endef

# Nothing looks for dependencies, because the lock files have them all; the package itself is installed in place.
define install
	$(call environment,$(1))
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(2)
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
endef

.PHONY: help demo test test-fast test-newest browser bench accelerators docs lint format types lock clean distclean

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1@\2/p' Makefile | while IFS=@ read -r target text; do \
		printf '%-14s %s\n' "  $$target" "$$text"; done

demo: .venv-demo/.installed  ## Dynamics of a robot: round-trip error, timing, a simulated motion as a plot
	.venv-demo/bin/jaxcfa demo $(if $(ROBOT),"$(ROBOT)")

test: .venv/.installed  ## All tests
	$(PYTEST) $(ARGS)

test-fast: .venv/.installed  ## The tests that are not marked as slow
	$(PYTEST) -m "not slow" $(ARGS)

test-newest: BIN = .venv-newest/bin
test-newest: .venv-newest/.installed  ## The same with the newest releases of all packages, e.g. PYTHON=python3.13
	$(PYTEST) -m "not slow" $(ARGS)

browser:  ## Install the browser that tests of the viewer need (Debian and Ubuntu, as root)
	apt-get update -qq
	apt-get install -qq -y --no-install-recommends chromium

bench: .venv-bench/.installed .venv-control/.installed  ## Benchmarks, an hour: all, or e.g. ARGS="chain batch", ARGS=--smoke
	JAXCFA_BENCH_PYTHON=$(CURDIR)/.venv-control/bin/python .venv-bench/bin/python -m benchmarks $(ARGS)

accelerators: .venv-aot/.installed  ## Compile for GPUs and TPUs that are not there, e.g. ARGS="h100 --only ABA" (Linux)
	.venv-aot/bin/python -m benchmarks.accelerators $(ARGS)

docs: .venv/.installed  ## Build the documentation site into output/site, notebooks executed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet $(ARGS)

lint: .venv/.installed  ## Lint, and check the format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/.installed  ## Format, and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/.installed  ## Check types
	$(BIN)/mypy

# UPGRADE=--upgrade takes the newest versions; otherwise pins change only where pyproject.toml demands it.
LOCK = uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --group build \
	--custom-compile-command "make lock" $(UPGRADE)

lock:  ## Pin the versions of all dependencies anew (needs uv)
	$(LOCK) --extra dev -o requirements/dev.txt pyproject.toml
	$(LOCK) --extra all -o requirements/demo.txt -c requirements/dev.txt pyproject.toml
	$(LOCK) --extra peers -o requirements/bench.txt -c requirements/dev.txt pyproject.toml
	$(LOCK) --extra control -o requirements/control.txt pyproject.toml
	$(LOCK) --extra aot -o requirements/aot.txt -c requirements/dev.txt pyproject.toml

clean:  ## Remove caches and outputs
	rm -rf output build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(wildcard jaxcfa tests examples benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## Remove the virtual environments too
	rm -rf .venv .venv-aot .venv-bench .venv-control .venv-demo .venv-newest

.venv/.installed: requirements/dev.txt pyproject.toml
	$(call install,.venv,requirements/dev.txt)

.venv-newest/.installed: pyproject.toml
	$(call environment,.venv-newest)
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e ".[dev]"
	@touch $@

.venv-demo/.installed: requirements/demo.txt pyproject.toml
	$(call install,.venv-demo,requirements/demo.txt)

.venv-bench/.installed: requirements/bench.txt pyproject.toml
	$(call install,.venv-bench,requirements/bench.txt)

.venv-control/.installed: requirements/control.txt pyproject.toml
	$(call install,.venv-control,requirements/control.txt)

.venv-aot/.installed: requirements/aot.txt pyproject.toml
	$(call install,.venv-aot,requirements/aot.txt)
