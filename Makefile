# Needs Python 3.11 or newer and GNU make; everything else goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
MODEL = $(shell $(BIN)/python -c "import onnx, pathlib; print(pathlib.Path(onnx.__file__).parent / 'backend/test/data/light/light_resnet50.onnx')")

.PHONY: run test lint bench docs clean

.venv/.runtime: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade-strategy only-if-needed -e .
	touch $@

.venv/.dev: .venv/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade-strategy only-if-needed -e ".[dev]"
	touch $@

run: .venv/.runtime
	$(BIN)/lanefold compile "$(MODEL)" --target trn1 --output out/light_resnet50
	$(BIN)/lanefold run "$(MODEL)" --target trn1 --verify --output out/light_resnet50-outputs.npz

test: .venv/.dev
	$(BIN)/python -m pytest -n auto

lint: .venv/.dev
	$(BIN)/ruff check src tests tools benchmarks
	$(BIN)/ruff format --check src tests tools benchmarks
	$(BIN)/mypy

bench: .venv/.dev
	$(BIN)/python benchmarks/tpb_streams.py --markdown docs/performance.md
	$(BIN)/python benchmarks/tpb_machine.py --markdown docs/performance.md
	$(BIN)/python benchmarks/pto_tiles.py --markdown docs/performance.md
	$(BIN)/python benchmarks/sweep.py --markdown docs/performance.md

docs: .venv/.dev
	$(BIN)/python tools/make_rule_pages.py
	$(BIN)/python tools/make_table_pages.py
	$(BIN)/python tools/make_cost_page.py
	$(BIN)/python tools/make_operator_page.py
	$(BIN)/python tools/make_conformance_page.py

clean:
	rm -rf .venv out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
