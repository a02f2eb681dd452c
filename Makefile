# Each target makes the environment that it needs; PYTHON names the interpreter to start from.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# What `make test-all` runs under each Python: test or test-full.
TESTS ?= test
ENV = OMP_NUM_THREADS=$${OMP_NUM_THREADS:-2} HF_HUB_OFFLINE=1

.PHONY: demo browser screenshots test test-full test-all lint bench fuzz chaos docs site dist dist-all licences clean

# torch is asked for first and by version: any later request would pull the CUDA packages.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet -e '.[all,dev]'
	touch $@

demo: $(VENV)/.installed
	$(ENV) $(BIN)/python -m captious demo --output demo-out

# The report is tested in Debian's chromium; where it cannot be installed, the test says so.
browser:
	@command -v chromium >/dev/null \
	  || (apt-get update -qq && apt-get install -y -qq chromium) >/dev/null 2>&1 \
	  || echo "no chromium: the report is not tested in a browser"

test: $(VENV)/.installed browser
	$(ENV) $(BIN)/python -m pytest

test-full: $(VENV)/.installed browser
	$(ENV) $(BIN)/python -m pytest -m "full or not full"

# The tests under every Python from 3.11 to 3.13 that is on this machine, each in its own environment.
# A shim of pyenv is on PATH even if its Python is not selected: what does not run is not taken.
test-all: browser
	@for version in 3.11 3.12 3.13; do \
	  found=; \
	  for place in python$$version "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python; do \
	    if $$place -c 'import venv' >/dev/null 2>&1; then found=$$place; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then echo "no Python $$version on this machine: not tested"; continue; fi; \
	  echo "Python $$version: $$found"; \
	  $(MAKE) --no-print-directory $(TESTS) PYTHON=$$found VENV=.venv-$$version || exit 1; \
	done

# Wheel and sdist, the same bytes for the same commit, installed into empty environments.
dist:
	$(PYTHON) release/dist.py

# The same, and captious[all] in an empty environment: downloads about 1 GB, takes minutes.
dist-all:
	$(PYTHON) release/dist.py --all

licences: $(VENV)/.installed
	$(BIN)/python release/licences.py

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(ENV) $(BIN)/python benchmarks/classic.py

# Damaged files over every reader; failing ones, made small, are left in fuzz-out.
fuzz: $(VENV)/.installed
	$(ENV) $(BIN)/python tests/fuzz/campaign.py --inputs 20000 --seconds 300 --seed 1 --out fuzz-out

# Kills, full disks, several processes on one cache: about fifteen minutes.
chaos: $(VENV)/.installed
	$(ENV) $(BIN)/python benchmarks/chaos.py

# Worked examples, pages of metrics and papers, the output below the commands of the tutorials.
docs: $(VENV)/.installed
	$(ENV) $(BIN)/python docs/examples.py
	$(BIN)/python docs/generate.py
	$(ENV) $(BIN)/python docs/run.py README.md docs/index.md docs/quickstart.md docs/report.md \
	  docs/service.md docs/tutorials/*.md

# The documentation as a web site in site/; a broken link is an error.
site: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --site-dir site

screenshots: demo browser
	$(BIN)/python docs/screenshots.py demo-out/report.html

clean:
	rm -rf $(VENV) .venv-3.* site dist demo-out fuzz-out .pytest_cache .mypy_cache .ruff_cache
