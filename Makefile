# What a contributor runs. `make run` and `make test` set everything up the first time and reinstall
# nothing after that; they need Python 3.11+ and make, and use a C compiler if there is one.

VENV := .venv
BIN := $(VENV)/bin
# The interpreter for a new .venv; empty: the first of PYTHONS that is 3.11 or later.
PYTHON ?=
PYTHONS := python3.13 python3.12 python3.11 python3 python
PYTEST := $(BIN)/python -m pytest -q
# Test processes; how many times as many random executions make soak tries.
JOBS ?= 2
SOAK_SEEDS ?= 50
# Tests of one group share a process: those that need Spark share its one session.
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup
# The interpreted form repeats only the tests of what is compiled: not those of whole nodes, nor of
# engines that never are.
PURE_TESTS := $(wildcard tests/crdt tests/engine tests/conformance/test_engines.py tests/thesis) $(filter-out \
	$(foreach name,council elastic elastic_schedules nodes run soak_elastic,tests/sim/test_$(name).py), \
	$(wildcard tests/sim/test_*.py))
# Packaging tests need minutes and a package index: only in CI.
MARKS := $(if $(filter true 1,$(CI)),not soak,not soak and not packaging)
# The modules mypyc compiles, from the one list in pyproject.toml.
COMPILED := $(wildcard $(shell sed -n '/^compiled = \[/,/^\]/s/^ *"\(.*\)",*$$/\1/p' pyproject.toml))
BUILD_LOG := $(VENV)/compile.log
COMPILE_STAMP := $(VENV)/$(if $(filter 1,$(THENCE_PURE)),.pure,.compiled)

.DEFAULT_GOAL := help
.PHONY: help run test lint format bench soak build lock clean setup
.DELETE_ON_ERROR:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

run: setup ## Set up, then run the demonstration
	@$(BIN)/thence demo

test: setup ## Set up, then run the tests, on the compiled and on the interpreted form
	@if ls src/thence/engine/*.so >/dev/null 2>&1 && [ -n "$(PURE_TESTS)" ]; then \
		echo "== interpreted form of the flagship: $(PURE_TESTS)"; \
		THENCE_PURE=1 $(PYTEST) $(PURE_TESTS); \
	fi
	@echo "== all tests"
	@$(PYTEST) -m "$(MARKS)"

lint: setup ## Check style, types, layers and dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports
	$(BIN)/deptry .

format: setup ## Rewrite the sources in the house style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup ## Print the costs per message, of groups of processes, of members that change, of data types, of the store, of the page, of the check on Spark
	@broken=0; $(BIN)/python -m benchmarks || broken=1; \
	$(BIN)/python -m benchmarks.mesh || broken=1; \
	$(BIN)/python -m benchmarks.elastic || broken=1; \
	$(BIN)/python -m benchmarks.crdt || broken=1; \
	$(BIN)/python -m benchmarks.store || broken=1; \
	$(BIN)/python -m benchmarks.store_memory --keys 100000 || broken=1; \
	$(BIN)/python -m benchmarks.web || broken=1; \
	PYTHONPATH=. $(BIN)/python benchmarks/bench_udp.py || broken=1; \
	PYTHONPATH=. $(BIN)/python benchmarks/bench_spark.py || broken=1; exit $$broken

soak: setup ## Run the random tests for long (SOAK_SEEDS=50)
	THENCE_SEEDS=$(SOAK_SEEDS) $(PYTEST) -m "not packaging" -o timeout=0
	path=build/soak; $(BIN)/python -m tests.sim.soak_build || path=; \
	PYTHONPATH=$$path $(BIN)/python -m tests.sim.soak_elastic --jobs $(JOBS)

build: setup ## Build wheel and sdist into dist/
	$(BIN)/python -m build

lock: ## Pin the newest versions that fit pyproject.toml into requirements.lock (run it on Python 3.11)
	rm -rf build/lock
	@$(find_python) && "$$python" -m venv build/lock
	build/lock/bin/python -c "$$LOCKED_NAMES" > build/lock/names.txt
	build/lock/bin/python -m pip install --quiet --upgrade --requirement build/lock/names.txt
	{ echo "# Exact versions of all that make installs; made by \`make lock\`, do not edit."; \
	  build/lock/bin/python -m pip freeze --all --exclude pip; } > requirements.lock
	rm -rf build/lock

clean: ## Remove everything that make made
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	find src -name '*.so' -delete

# ---- set-up -----------------------------------------------------------------------------------
# Two stamps: packages are installed again only when the pins or the package definition change; the
# flagship alone is compiled again when its sources do.

setup: $(COMPILE_STAMP)

$(VENV)/.stamp: requirements.lock pyproject.toml setup.py
	@$(find_python) && echo "thence: setting up $(VENV) with $$("$$python" -V)" && \
	{ [ -x $(BIN)/python ] && $(BIN)/python -c pass 2>/dev/null || "$$python" -m venv --clear $(VENV); } || \
	{ echo "thence: could not make $(VENV); on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@THENCE_PURE=1 THENCE_COMPILE=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --editable .
	@touch $@

$(COMPILE_STAMP): $(VENV)/.stamp $(COMPILED)
	@rm -f $(VENV)/.compiled $(VENV)/.pure
	@find src -name '*.so' -delete
	@$(BIN)/python setup.py --quiet build_ext --inplace > $(BUILD_LOG) 2>&1 || \
		{ cat $(BUILD_LOG); exit 1; }
	@if grep '^thence: ' $(BUILD_LOG); then echo "thence: its log is $(BUILD_LOG)"; \
	else echo "thence: flagship compiled"; fi
	@touch $@

# Sets $$python to PYTHON or to the first usable interpreter (a name may be a shim that only fails).
find_python = python=""; for each in $(or $(PYTHON),$(PYTHONS)); do \
		if "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			python="$$each"; break; fi; done; \
	if [ -z "$$python" ]; then \
		echo "thence: no Python 3.11 or later found; name one: make PYTHON=/path/to/python3" >&2; \
		exit 1; fi

# Prints what pyproject.toml asks for: the package, its extras, its build and its dev group.
define LOCKED_NAMES
import tomllib
settings = tomllib.load(open("pyproject.toml", "rb"))
project = settings["project"]
names = settings["build-system"]["requires"] + project["dependencies"]
names += settings["dependency-groups"]["dev"]
for extra in project["optional-dependencies"].values():
    names += [name for name in extra if not name.startswith("thence[")]
print("\n".join(sorted(set(names))))
endef
export LOCKED_NAMES
