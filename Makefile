# `make demo` and `make test` are all a fresh machine needs: python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOWEST := .venv-lowest
FLOWER := .venv-flower
HARD := .venv-hard
# DATA_DIR=... names a folder with a8a, ijcnn1 and bio_train, if there is one.
DATA := $(if $(DATA_DIR),--data-dir $(DATA_DIR))

# CASES=... names some of the cases of test-hard.
CASES :=

# Agents of tests wait for each other most of the time: more workers than cores.
WORKERS := --numprocesses 6 --dist worksteal

# Many processes import the same modules: each is compiled once, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-lowest test-hard test-flower check types smoke bench statistics audit adversary chaos fuzz reproduce clean

# An environment with what $(2) names, in the folder $(1). uv takes seconds where pip takes a minute; pip is asked
# where uv cannot be had or finds nothing.
define environment
$(PYTHON) -m venv --clear $(1)
($(1)/bin/python -m pip install --quiet --disable-pip-version-check uv && \
	$(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2)) || \
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2)
touch $(1)/.ready
endef

$(READY): pyproject.toml
	$(call environment,$(VENV),--editable ".[dev]")

$(FLOWER)/.ready: pyproject.toml
	$(call environment,$(FLOWER),--editable ".[dev]" flwr)

$(HARD)/.ready: pyproject.toml
	$(call environment,$(HARD),--editable ".[dev]" pytest-randomly)

# The lowest versions that pyproject.toml allows, of those that come built for this Python.
$(LOWEST)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--only-binary :all: --compile-bytecode --editable ".[dev]"
	touch $(LOWEST)/.ready

demo: $(READY)    ## five organisations train one classifier on the embedded Adult data; then each in a process of its own
	$(BIN)/tacit demo --out out/demo
	rm -rf out/federation
	$(BIN)/tacit federation demo --out out/federation

test: $(READY)    ## the whole test suite, six tests at a time
	$(BIN)/python -m pytest $(WORKERS)

test-lowest: $(LOWEST)/.ready  ## the same with the oldest dependencies that are allowed
	$(LOWEST)/bin/python -m pytest $(WORKERS)

test-hard: $(HARD)/.ready  ## on other processors, in random order, on a busy machine: more than an hour; see docs/test-hard.md
	PYTEST_ADDOPTS="$(WORKERS)" $(HARD)/bin/python tools/test_hard.py $(CASES)

test-flower: $(FLOWER)/.ready  ## agents in one environment with Flower
	$(FLOWER)/bin/python -m pytest tests/agent/test_loop.py

smoke:            ## the wheel by itself, without extras and with all of them
	PYTHON=$(PYTHON) tools/smoke.sh

check: $(READY)   ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

types: $(READY)   ## what a consumer's type checkers say, pyright among them: it comes with node, 250 MB on disk
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pyright[nodejs]"
	$(BIN)/python -m pytest tests/test_types.py

bench: $(READY)   ## speed, as ratios measured in one run
	$(BIN)/python benchmarks/local_solver.py
	$(BIN)/python benchmarks/privacy.py
	$(BIN)/python benchmarks/secret_sharing.py
	$(BIN)/python benchmarks/token_methods.py
	$(BIN)/python benchmarks/composite.py $(DATA)
	$(BIN)/python benchmarks/agents.py

statistics: $(READY)  ## the laws of the noise, from a million draws of each: some minutes
	TACIT_DRAWS=250000 $(BIN)/python -m pytest tests/privacy/test_noise.py

audit: $(READY)   ## every private method against its claim, and every planted bug: half an hour; docs/audits.md keeps the result
	OMP_NUM_THREADS=1 $(BIN)/python tests/audit_runs.py

adversary: $(READY)  ## neighbours that lie, at length: three quarters of an hour; docs/adversary.md keeps the result
	OMP_NUM_THREADS=1 $(BIN)/python tests/adversary_runs.py

chaos: $(READY)   ## agents that are killed at 60 random moments of a run, and as soon as they come back: some minutes
	TACIT_KILLS=60 $(BIN)/python -m pytest tests/agent/test_store.py

fuzz: $(READY)    ## a member that sends and answers nonsense, 100,000 messages of it, to three agents: some minutes
	$(BIN)/python tests/mutated_messages.py

reproduce: $(READY)  ## the papers' figures and claims, in full: three quarters of an hour; what docs/papers keeps
	$(BIN)/tacit reproduce recycled-admm --out docs/papers
	$(BIN)/tacit reproduce dynamic-dp --out docs/papers
	$(BIN)/tacit reproduce dp-admm $(DATA) --out docs/papers
	$(BIN)/tacit reproduce incremental-admm --out docs/papers
	$(BIN)/tacit reproduce local-dp --out docs/papers

clean:
	rm -rf $(VENV) $(LOWEST) $(FLOWER) $(HARD) out dist .mypy_cache .ruff_cache .pytest_cache
