# Needs make and Python 3.11, 3.12 or 3.13; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# full_size needs a GPU: `make bench-full_size` where there is one.
BENCHES := $(filter-out full_size,$(sort $(patsubst medtune/trainer/benches/%.py,%,$(wildcard medtune/trainer/benches/[a-z]*.py))))

# Without compiled files every start of medtune would compile its libraries anew: 29 s in place of 12.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-slow test-gpu check bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(f"medtune needs Python 3.11 to 3.13, not {v[0]}.{v[1]}; try make PYTHON=python3.12" if not (3, 11) <= v <= (3, 13) else 0)'
	@echo "installing into $(VENV) (a few minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# A simulated benchmark and a real small model, from nothing to a gain.
demo: $(READY)
	$(BIN)/medtune prepare fetal_gauge --source fetal_phantom --out runs/demo_data
	$(BIN)/medtune run pocket_fetal_phantom_lora --set data.root=runs/demo_data

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 10

test-slow: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow --durations 20

test-gpu: $(READY)
	$(BIN)/python -m pytest -n 2 -m gpu --durations 10

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# `make bench RECORD=docs/bench` writes the figures of every bench, with machine and date.
bench: $(addprefix bench-,$(BENCHES))

bench-%: $(READY)
	$(BIN)/medtune bench $* $(if $(RECORD),--record $(RECORD))

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
