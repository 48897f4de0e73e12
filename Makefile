# `make demo` and `make test` are all a fresh machine needs: python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# DATA_DIR=... names a folder with a8a, ijcnn1 and bio_train, if there is one.
DATA := $(if $(DATA_DIR),--data-dir $(DATA_DIR))

.PHONY: demo test check types bench adversary fuzz reproduce clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)

demo: $(READY)    ## five organisations train one classifier on the embedded Adult data; then each in a process of its own
	$(BIN)/tacit demo --out out/demo
	rm -rf out/federation
	$(BIN)/tacit federation demo --out out/federation

test: $(READY)    ## the whole test suite, two files at a time
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

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

adversary: $(READY)  ## neighbours that lie, at length: three quarters of an hour; docs/adversary.md keeps the result
	$(BIN)/python tests/adversary_runs.py

fuzz: $(READY)    ## a member that sends and answers nonsense, 100,000 messages of it, to three agents: some minutes
	$(BIN)/python tests/mutated_messages.py

reproduce: $(READY)  ## the papers' figures and claims, in full: three quarters of an hour; what docs/papers keeps
	$(BIN)/tacit reproduce recycled-admm --out docs/papers
	$(BIN)/tacit reproduce dynamic-dp --out docs/papers
	$(BIN)/tacit reproduce dp-admm $(DATA) --out docs/papers
	$(BIN)/tacit reproduce incremental-admm --out docs/papers
	$(BIN)/tacit reproduce local-dp --out docs/papers

clean:
	rm -rf $(VENV) out dist .mypy_cache .ruff_cache .pytest_cache
