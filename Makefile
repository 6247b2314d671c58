# Everything that a contributor or a first user types. `make demo` and `make test` need nothing done before them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.run-stamp
DEV    := $(VENV)/.dev-stamp
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UNUSED = /(tests|lexers)/|/site-packages/(mypy|mypyc|pip|setuptools)/
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x '$(UNUSED)' src $(VENV)/lib || true  # on all cores, where pip takes one; what nobody imports is compiled when somebody does; packages hold files of other Pythons, too
JOBS   ?= 6
PUSH_MUTANTS ?= 3
SERVER_JOBS ?= 10
FOLDERS = tests/unit tests/contract tests/pg tests/host tests/web
# Order and random examples of the tests go by what the commit holds: others with every change, the same for everyone.
SEED   ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD^{tree} 2>/dev/null || echo 1))
SHUFFLED = --randomly-seed=$(SEED) --hypothesis-seed=$(SEED)

.PHONY: help venv demo test lint types pages kernel pure pure-1 pure-2 mutants servers unit contract pg host web docs fuzz bench nightly wheel lock system ready programs engine clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

venv: $(RUN) ## Make .venv with what users get, every distribution checked by hash

demo: $(RUN) ## Tune the embedded PostgreSQL and prove the gain; leaves demo-out/
	$(BIN)/pgdyno demo --output demo-out

test: $(VENV)/bin/python ## Install what is missing and run every check: what CI runs
	@$(MAKE) --no-print-directory -j 2 ready  # pip takes one core, the compiler of the engine another
	@MAKE="$(MAKE)" $(BIN)/python tools/stages.py lint+pure+mutants+kernel,servers  # the kernel's tests wait, and a study, too: pure ones take what is left

lint: $(DEV) ## Style, types, import contracts, generated pages, vendored files
	$(MAKE) --no-print-directory -j 2 --output-sync=target types pages  # mypy takes as long as all the rest

types:
	$(BIN)/mypy

pages:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/generated_pages.py --check
	$(BIN)/python tools/vendor.py --check
	$(BIN)/python tools/build_engine.py --lint

servers: $(DEV)  # many workers: a study uses a fifth of a CPU and waits; LONGEST of tests/conftest.py begins; what only workers can show of workers is among the pure tests
	$(BIN)/pytest -n $(SERVER_JOBS) --dist loadgroup --no-loadscope-reorder $(SHUFFLED) -m "not alone" $(filter-out tests/unit,$(FOLDERS)) tests/unit/test_test_groups.py

pure: $(DEV)  # each run has half of the files: workers of one run would each collect all, and say of each test how it went
	$(MAKE) --no-print-directory -k -j 2 --output-sync=target pure-1 pure-2

pure-1 pure-2:
	PGDYNO_TEST_PART=$(@:pure-%=%)/2 nice -n 10 $(BIN)/pytest $(SHUFFLED) tests/unit

mutants: $(DEV)  # a sample of what the night does: lists who survives, and fails nothing
	nice -n 10 $(BIN)/python tools/mutants.py --sample --count $(PUSH_MUTANTS) --seed $(SEED)

kernel: $(DEV)
	$(BIN)/pytest $(SHUFFLED) -m alone tests/host

unit contract pg web: $(DEV) ## Run one folder of tests
	$(BIN)/pytest -n $(JOBS) --dist loadgroup tests/$@

host: $(DEV) ## Run the tests that change this machine for a while, one after another
	$(BIN)/pytest tests/host

docs: $(DEV) ## Write the generated pages of docs/reference anew
	$(BIN)/python tools/generated_pages.py

fuzz: $(DEV) ## Give every verb 5,000 hostile lists of flags, and every reader 5,000 damaged files; SEED=7 for others
	PGDYNO_TEST_CASES=5000 PGDYNO_TEST_SEED=$(SEED) $(BIN)/pytest -n $(JOBS) tests/unit/outside

bench: $(DEV) ## Print what the project measures about itself, as ratios in interleaved runs
	$(BIN)/python bench/verdicts.py
	$(BIN)/python bench/optimizer.py
	$(BIN)/python bench/sampling.py
	$(BIN)/python bench/own_cost.py

NIGHT_KILLS  ?= 500
NIGHT_ROUNDS ?= 5
NIGHT_MOVES  ?= 1000
NIGHT_REMOTE ?= 50
NIGHT_MUTANTS ?= 60

nightly: $(DEV) ## Hours, as root: the long forms of kills, scenes and the hostile owner, the fuzzers, coverage and mutants
	$(BIN)/python bench/torture kills --kills $(NIGHT_KILLS) --jobs $(JOBS) --seed $(SEED)
	$(BIN)/python bench/torture scenes --rounds $(NIGHT_ROUNDS) --seed $(SEED)
	$(BIN)/python bench/torture hostile --moves $(NIGHT_MOVES) --seed $(SEED)
	PGDYNO_TEST_REMOTE_KILLS=$(NIGHT_REMOTE) $(BIN)/pytest --timeout=7200 tests/host/test_torture_remote.py
	PGDYNO_TEST_NIGHT=1 $(BIN)/pytest -m alone tests/host
	PGDYNO_TEST_NIGHT=1 $(BIN)/pytest -n $(JOBS) --dist loadgroup -m "not alone" $(FOLDERS)
	$(MAKE) --no-print-directory fuzz
	$(BIN)/python tools/coverage_gate.py
	$(BIN)/python tools/mutants.py --count $(NIGHT_MUTANTS) --seed $(SEED)

wheel: $(DEV) engine ## Build the wheel that pip and pipx install, into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

lock: $(DEV) ## Resolve the lock files anew, needs pip-tools in .venv
	$(PIP) pip-tools
	$(BIN)/python tools/lock.py

system: ## Install the programs that tests drive and that are missing: needs root and apt, else those tests are skipped
	@$(PYTHON) tools/system_packages.py

ready: $(DEV) programs
	@:

programs: system
	@$(PYTHON) tools/build_engine.py

engine: ## Build the compiled engine of replays where cargo 1.75 or newer is there; without it the Python engine is used
	@$(PYTHON) tools/build_engine.py

clean: ## Remove what can be made again
	rm -rf $(VENV) engine/target src/pgdyno/trace/bin demo-out build dist .pytest_cache .mypy_cache .ruff_cache

$(VENV)/bin/python:
	@$(PYTHON) tools/make_venv.py $(VENV)

$(RUN): requirements/run.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) --require-hashes --requirement requirements/run.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	$(COMPILE)
	@touch $@

$(DEV): requirements/dev.lock $(RUN)
	$(PIP) --require-hashes --requirement requirements/dev.lock
	$(COMPILE)
	@touch $@
