# Each target makes the environment that it needs; PYTHON names the interpreter to start from.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
ENV = OMP_NUM_THREADS=$${OMP_NUM_THREADS:-2} HF_HUB_OFFLINE=1

.PHONY: demo browser screenshots test test-full lint bench fuzz chaos docs clean

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

docs: $(VENV)/.installed
	$(BIN)/python docs/generate.py

screenshots: demo browser
	$(BIN)/python docs/screenshots.py demo-out/report.html

clean:
	rm -rf $(VENV) demo-out fuzz-out .pytest_cache .mypy_cache .ruff_cache
