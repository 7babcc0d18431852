# Needs make and Python 3.11, 3.12 or 3.13; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BARE := $(VENV)/.bare
# What pip has installed is held against these hashes, before any of it runs; none with `make setup HASHES=`.
HASHES := hashes.txt
HELD = $(PYTHON) -I tests/packages/archives.py check $(HASHES)
# The environments of the tools that the bench peers compares medtune with.
PEERS := .peers
# Three benches are left out of `make bench`: full_size needs a GPU, and peers and rewards need the network for their
# environments. Each has its own target, `make bench-full_size`, `make bench-peers` and `make bench-rewards`.
BENCHES := $(filter-out full_size peers,$(sort $(patsubst bench/%.py,%,$(wildcard bench/[a-z]*.py)))) peers_profile

# This lets Python keep compiled files. Without them every start of medtune would compile its libraries anew: 29 s
# instead of 12 s.
unexport PYTHONDONTWRITEBYTECODE

# Compiled once and on all cores, and not by every process at its first import, but for what few runs import. Files for
# other Pythons fail and may; what is compiled already is passed over.
COMPILE := $(BIN)/python -m compileall -q -j 0 -x "/(tests?|pip|openai|fontTools|transformers/models|monai|mypyc?|playwright|setuptools|torch/testing)/" $(VENV)/lib >/dev/null || :

.PHONY: setup demo docs reference sizes test test-slow test-ci soak test-gpu check bench bench-peers bench-rewards licences sbom audit hashes clean

setup: $(READY)

# What `medtune` itself needs: the demo waits for no more.
$(BARE): pyproject.toml constraints.txt $(HASHES)
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(f"medtune needs Python 3.11 to 3.13, not {v[0]}.{v[1]}; try make PYTHON=python3.12" if not (3, 11) <= v <= (3, 13) else 0)'
	@echo "installing into $(VENV) (a few minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --report $(VENV)/bare.json --editable .
	@$(if $(HASHES),$(HELD) $(VENV)/bare.json || { rm -rf $(VENV); false; })
	@$(COMPILE)
	@touch $@

$(READY): $(BARE)
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --report $(VENV)/dev.json --editable '.[dev]'
	@$(if $(HASHES),$(HELD) $(VENV)/dev.json || { rm -rf $(VENV); false; })
	@$(COMPILE)
	@touch $@

# Prepares a simulated benchmark, trains a small pretrained model on it, and prints the gain.
demo: $(BARE)
	$(BIN)/medtune prepare fetal_gauge --source fetal_phantom --out runs/demo_data -j 2
	$(BIN)/medtune run pocket_fetal_phantom_lora --set data.root=runs/demo_data

# Two processes, and the dearest files first (tests/costs.json), so that none is left alone with a long one.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: $(READY)
	$(PYTEST)

test-slow: $(READY)
	$(PYTEST) -m "slow and not soak"

# Both in one, as CI runs them.
test-ci: $(READY)
	$(PYTEST) -m "not soak and not gpu"

# The whole grids, simulations and kills of which `make test-slow` takes a part: `make soak`, or `make soak PART=kills`.
# It goes on where it was stopped. PAGE=docs/soak.md writes the summary.
soak: $(READY)
	$(BIN)/python -m tests.soak $(if $(PART),--part $(PART)) $(if $(PAGE),--page $(PAGE))

test-gpu: $(READY)
	$(PYTEST) -m gpu

# The site of docs/ into dist/site: it warns of nothing, no link is dead, and nothing is loaded from elsewhere.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "dist/site/index.html; its search needs a server: $(BIN)/python -m http.server --directory dist/site --bind 127.0.0.1 8000"

# The pages of docs/reference: of the code in seconds, of the models' sizes in 10 minutes.
reference: $(READY)
	$(BIN)/python -m website.reference

sizes: $(READY)
	$(BIN)/python -m website.sizes

check: $(READY) docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# `make bench RECORD=docs/bench` also writes the figures of every bench, with machine and date, into that folder.
bench: $(addprefix bench-,$(BENCHES))

bench-%: $(READY)
	$(BIN)/python -m bench $* $(if $(RECORD),--record $(RECORD))

bench-peers: $(READY) $(PEERS)/hf/.ready $(PEERS)/lmms/.ready
	$(BIN)/python -m bench peers $(if $(RECORD),--record $(RECORD))

bench-rewards: $(READY) $(PEERS)/trl/.ready
	$(BIN)/python -m bench rewards $(if $(RECORD),--record $(RECORD))

$(PEERS)/trl/.ready: bench/other_tools/trl_trainer.txt constraints.txt
	$(call environment,trl,--constraint constraints.txt --requirement $<)

$(PEERS)/hf/.ready: bench/other_tools/hf_trainer.txt constraints.txt
	$(call environment,hf,--constraint constraints.txt --requirement $<)

$(PEERS)/lmms/.ready: bench/other_tools/lmms_answers.txt
	$(call environment,lmms,--requirement $<)

define environment
@echo "installing into $(PEERS)/$(1) (about 6 GB, a few minutes)"
@rm -rf $(PEERS)/$(1)
@$(PYTHON) -m venv $(PEERS)/$(1)
@$(PEERS)/$(1)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check $(2)
@touch $(PEERS)/$(1)/.ready
endef

# docs/licences.md, and a bill of materials of what is installed; none of the three asks the network.
licences: $(READY)
	$(BIN)/python -m tests.packages.installed licences docs/licences.md

sbom: $(READY)
	$(BIN)/python -m tests.packages.installed sbom dist/sbom.json

# `make audit ADVISORIES=FOLDER`: a folder with records of OSV, such as a copy of the Python Packaging Advisory Database.
audit: $(READY)
	$(BIN)/python -m tests.packages.installed audit $(or $(ADVISORIES),$(error make audit needs ADVISORIES=FOLDER, with records of OSV))

# hashes.txt, behind a change of constraints.txt: pip says what it would install, for each Python, and installs nothing.
SDISTS := deepspeed docopt
WOULD := $(BIN)/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --no-deps
hashes: $(READY)
	@mkdir -p dist
	grep -v $(SDISTS:%=-e '^%==') constraints.txt > dist/wheels.txt
	$(WOULD) --report dist/sdists.json $(foreach name,$(SDISTS),$(shell grep '^$(name)==' constraints.txt))
	$(foreach version,3.11 3.12 3.13,$(WOULD) --only-binary=:all: --python-version $(version) --target dist/none \
		--report dist/$(version).json --requirement dist/wheels.txt &&) :
	$(PYTHON) -I tests/packages/archives.py write hashes.txt dist/sdists.json dist/3.11.json dist/3.12.json dist/3.13.json

clean:
	rm -rf $(VENV) $(PEERS) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
