# Everything starts from a bare Python 3.11+: `make tune` and `make test` create .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := mmbsgd search_spaces workflows tests benchmarks docker/engines.py docker/check

.PHONY: tune ui test test-all test-uncompiled lint types benchmark cluster-check clean

tune: .venv/installed
	$(BIN)/mmbsgd tune demo

# MLflow's dashboard, opened on the latest study; Ctrl-C ends it.
ui: .venv/installed
	$(BIN)/mmbsgd ui

# Without the stories that take a minute each, such as a driver killed ten times or every command of the README.
test: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long" $(PYTEST_ARGS)

test-all: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

# Numba's machine code is invisible to coverage: the same tests on small inputs, uncompiled.
test-uncompiled: .venv/dev
	$(BIN)/coverage erase
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -q -n 2 --dist loadfile -m "not compiled_only" -p no:cacheprovider
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --fail-under=90

lint: .venv/dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/hadolint docker/Dockerfile

# Builds the image and runs the cluster of docker/compose.yaml, unless its last summary is of the same files.
cluster-check: .venv/dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docker/check --if-changed $(CHECK_ARGS)

types: .venv/dev
	$(BIN)/mypy

benchmark: .venv/dev
	$(BIN)/python benchmarks/solver.py
	$(BIN)/python benchmarks/polishing.py
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/orchestration.py
	$(BIN)/python benchmarks/sampler.py
	$(BIN)/python benchmarks/tracking.py
	$(BIN)/python benchmarks/predict.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/readme.py
	$(BIN)/python benchmarks/picture.py
	$(BIN)/python benchmarks/terminal.py
	$(BIN)/python benchmarks/trade_off.py

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/dev: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
