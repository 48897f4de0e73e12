# `make demo` and `make test` are all a fresh machine needs: python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOWEST := .venv-lowest
FLOWER := .venv-flower
HARD := .venv-hard
BENCH := .venv-bench
TOOLS := .venv-tools
DOCS := .venv-docs
# DATA_DIR=... names a folder with a8a, ijcnn1 and bio_train, if there is one.
DATA := $(if $(DATA_DIR),--data-dir $(DATA_DIR))

# CASES=... names some of the cases of test-hard.
CASES :=

# Agents of tests wait for each other most of the time: more workers than cores.
SIDE_BY_SIDE := --numprocesses 6 --dist worksteal
WORKERS := $(SIDE_BY_SIDE) -m "not cluster and not pages and not slow"

# The files of the tests marked `cluster`.
CLUSTERS := tests/cli/test_cli_agent_ray.py tests/engines tests/simulation

# Many processes import the same modules: each is compiled once, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo quick test test-slow test-lowest test-hard test-flower check types smoke docs pages notebooks bench statistics audit mutants adversary chaos world protocol integrity fuzz reproduce lock sbom security clean

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

$(BENCH)/.ready: pyproject.toml
	$(call environment,$(BENCH),--editable ".[dev]" opendp)

$(DOCS)/.ready: pyproject.toml
	$(call environment,$(DOCS),--editable ".[docs]")

$(HARD)/.ready: pyproject.toml
	$(call environment,$(HARD),--editable ".[dev]" pytest-randomly)

# The lowest versions that pyproject.toml allows, of those that come built for this Python.
$(LOWEST)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--only-binary :all: --compile-bytecode --editable ".[dev]"
	touch $(LOWEST)/.ready

help:             ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1: \2/p' $(MAKEFILE_LIST)

demo: $(READY)    ## five organisations train one classifier on the embedded Adult data; then each in a process of its own
	$(BIN)/tacit demo --out out/demo
	rm -rf out/federation
	$(BIN)/tacit federation demo --out out/federation

quick: $(READY)   ## the tests nearest to what you changed since the last commit, for 40 s; SINCE=main compares with main
	$(BIN)/python tools/quick.py $(if $(SINCE),--since $(SINCE))

test: $(READY)    ## the test suite, six tests at a time
	$(BIN)/python -m pytest $(WORKERS)
	$(BIN)/python -m pytest -m cluster $(CLUSTERS)

test-slow: $(READY)  ## kills, liars against real agents, audits, figures of the papers, types: four minutes; CI runs them, too
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m slow

test-lowest: $(LOWEST)/.ready  ## the same with the oldest dependencies that are allowed
	$(LOWEST)/bin/python -m pytest $(WORKERS)
	$(LOWEST)/bin/python -m pytest -m cluster $(CLUSTERS)

test-hard: $(HARD)/.ready  ## on other processors, in random order, on a busy machine: more than an hour; see docs/evidence/reliability.md
	PYTEST_ADDOPTS='$(WORKERS)' $(HARD)/bin/python tools/test_hard.py $(CASES)

test-flower: $(FLOWER)/.ready  ## agents in one environment with Flower
	$(FLOWER)/bin/python -m pytest tests/agent/test_loop.py

smoke:            ## the wheel by itself, without extras and with all of them
	PYTHON=$(PYTHON) tools/smoke.sh

check: $(READY)   ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

pages: $(READY)   ## every command of the README, the tutorials and the how-tos, and the notebooks: some minutes
	$(BIN)/python -m pytest -m pages tests/test_pages.py

notebooks: $(READY)  ## run the notebooks in examples, and keep what they print and draw
	$(BIN)/python -m pip install --quiet --disable-pip-version-check nbclient ipykernel
	cd examples && for each in *.ipynb; do ../$(BIN)/jupyter execute --inplace --NotebookClient.record_timing=False $$each; done

types: $(READY)   ## what a consumer's type checkers say, pyright among them: it comes with node, 250 MB on disk
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pyright[nodejs]"
	$(BIN)/python -m pytest tests/test_types.py

bench: $(BENCH)/.ready  ## speed beside the best peers and what the machine allows: out/bench.json, docs/evidence/speed.md
	$(BENCH)/bin/python benchmarks/speed.py

statistics: $(READY)  ## the laws of the noise, from a million draws of each: some minutes
	TACIT_DRAWS=250000 $(BIN)/python -m pytest tests/privacy/test_noise.py tests/privacy/test_fast_noise.py

audit: $(READY)   ## every private method against its claim, and the bugs that audits must catch: half an hour; docs/evidence/audits.md keeps the result
	OMP_NUM_THREADS=1 $(BIN)/python tests/audit_runs.py

mutants: $(READY) ## every bug of tests/mutants against the tests that must notice it: half an hour; docs/evidence/mutants.md keeps the result; BUGS="WORD ..." takes some
	$(BIN)/python tests/mutants/run.py $(BUGS)

adversary: $(READY)  ## neighbours that lie, at length: three quarters of an hour; docs/evidence/audits.md keeps the result
	OMP_NUM_THREADS=1 $(BIN)/python tests/adversary_runs.py

chaos: $(READY)   ## 1,000 faults of agents, kills and worse: half an hour; docs/evidence/reliability.md keeps the result
	$(BIN)/python tests/chaos_runs.py --plants --faults 200
	$(BIN)/python tests/chaos_runs.py --faults 1000
	TACIT_KILLS=200 $(BIN)/python -m pytest tests/privacy/test_ledger.py -k copy_of_the_file

world: $(READY)   ## agents in a world made from a seed: 20,000 schedules, and planted bugs, an hour; SEED=17 replays one
ifdef SEED
	$(BIN)/python tests/world_runs.py --seed $(SEED)
else
	$(BIN)/python tests/world_runs.py --schedules 20000 --write
	$(BIN)/python tests/world_runs.py --plants --write
endif

protocol: $(READY)  ## every state of a model of the protocol, with faults and lies, and planted wrong rules: half an hour; docs/explanation/protocol.md keeps the result
	$(BIN)/python tests/protocol_runs.py

integrity: $(READY)  ## 2,000 flipped bits of a store, and 2,000 outsiders at an agent's door: some minutes
	TACIT_FLIPS=2000 $(BIN)/python -m pytest tests/agent/test_journal.py -k flipped
	$(BIN)/python tests/door.py 2000

fuzz: $(READY)    ## a member that sends and answers nonsense, 100,000 messages of it, to three agents: some minutes
	$(BIN)/python tests/mutated_messages.py

reproduce: $(READY)  ## the papers' figures and claims, in full: three quarters of an hour; what docs/papers keeps
	$(BIN)/tacit reproduce recycled-admm --out docs/papers
	$(BIN)/tacit reproduce dynamic-dp --out docs/papers
	$(BIN)/tacit reproduce dp-admm $(DATA) --out docs/papers
	$(BIN)/tacit reproduce incremental-admm --out docs/papers
	$(BIN)/tacit reproduce local-dp --out docs/papers
	$(BIN)/python tools/claims.py

.PHONY: docs
docs: $(DOCS)/.ready  ## the site: out/site/index.html; a link that leads nowhere, or any other warning, is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict

LOCK := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"

$(TOOLS)/.ready:  # tools that look at the project; not in its own environment, so that they add nothing to what they see
	$(call environment,$(TOOLS),uv bandit pip-audit cyclonedx-bom)

lock: $(TOOLS)/.ready  ## versions and hashes of everything that a deployment installs: deploy/*.lock
	$(TOOLS)/bin/uv $(LOCK) --upgrade --extra agent --output-file deploy/requirements.lock pyproject.toml
	echo "$$(sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml)" | \
		$(TOOLS)/bin/uv $(LOCK) --upgrade --output-file deploy/build.lock -

sbom: $(TOOLS)/.ready  ## the software bill of materials of a deployment (CycloneDX), from the lock file
	mkdir -p out
	$(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --output-reproducible \
		--output-file out/sbom.json deploy/requirements.lock

security: $(TOOLS)/.ready  ## bandit over the source; known faults of the locked packages, which needs a network
	$(TOOLS)/bin/bandit --quiet --configfile pyproject.toml --recursive src
	$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip --requirement deploy/requirements.lock

clean:            ## remove all environments, results and caches
	rm -rf $(VENV) $(LOWEST) $(FLOWER) $(HARD) $(BENCH) $(TOOLS) $(DOCS) out dist .mypy_cache .ruff_cache .pytest_cache
