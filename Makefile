# The two commands that do everything: `make run` and `make test`. Nothing else is needed but Python >= 3.10.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
TASK   ?= gray_scott_inverse

.PHONY: run test lint docs bench zoo boards-small boards-medium index figures clean

run: $(VENV)/.run
	$(BIN)/pdebench-hss run --models all --tasks $(TASK)

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.test
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

zoo: $(VENV)/.test
	$(PIP) install --quiet -c constraints.txt $(patsubst %,-e ./%,$(wildcard zoo/*))
	for package in zoo/*; do $(BIN)/python -m pytest -q --rootdir=$$package $$package/tests || exit 1; done

# The boards of docs/boards.md. Hours; stopped and repeated, they go on where they were.
SEEDS ?= 3
TRIES ?= 4
boards-small:  BUDGETS =
boards-small:  TRY = core_seconds=5
boards-medium: BUDGETS = --budget core_seconds=10,40,160
boards-medium: TRY = core_seconds=5

boards-small boards-medium: boards-%: $(VENV)/.test
	$(BIN)/pdebench-hss tune --models all --tasks all --scale $* --only lr --tries $(TRIES) --budget $(TRY) \
		--out leaderboards/tuning/$*.yaml
	$(BIN)/pdebench-hss run --models all --tasks all --scale $* $(BUDGETS) --seeds $(SEEDS) \
		--tuned leaderboards/tuning/$*.yaml --out leaderboards/$*-cpu
	$(BIN)/pdebench-hss plot leaderboards/$*-cpu
	$(BIN)/pdebench-hss pack leaderboards/$*-cpu --errors own
	$(BIN)/pdebench-hss index leaderboards

# After a board was added or has changed, or the way in which tables are written.
index: $(VENV)/.run
	$(BIN)/pdebench-hss index leaderboards --tables

# Then: figures in README and docs that are bound to a board, and README's picture. Read the lines that it prints.
BOARD ?= leaderboards/small-cpu
figures: $(VENV)/.test
	$(BIN)/python docs/screenshots.py $(BOARD)
	$(BIN)/python docs/update_figures.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[test]'
	touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) leaderboards/latest
