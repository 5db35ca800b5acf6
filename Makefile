# Everything here works on a machine that has only make and Python 3.11 to 3.13: what is missing goes into .venv.
.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/sh
BIN := .venv/bin
ARGS ?=
# pyright would ask the network whether there is a newer one
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

DEMO = $(BIN)/kedge run examples/compare/plan.yaml --tools examples/compare/tools.py --run "$$run"
DEMO_RESULT = $(BIN)/kedge show "$$run" --timeline

.PHONY: help demo test coverage lint format types bench prove fuzz docs lock clean

help:  ## what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: .venv/core.done  ## run the example plan and show what happened
	@run=demo-$$(date +%Y%m%d-%H%M%S); $(DEMO) && $(DEMO_RESULT)

test: .venv/dev.done  ## all tests (ARGS="-k name" for some)
	@$(BIN)/python -m pytest -q $(ARGS)

coverage: .venv/dev.done  ## all tests, then the lines and branches they leave out
	@$(BIN)/coverage run -m pytest -q $(ARGS)
	@$(BIN)/coverage combine -q && $(BIN)/coverage report

lint: .venv/dev.done  ## style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: .venv/dev.done  ## mend what can be mended of the style
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format .

types: .venv/dev.done  ## strict types
	@$(BIN)/pyright --pythonpath $(BIN)/python

bench: .venv/dev.done  ## speed, beside the limits of the machine (ARGS=--json)
	@$(BIN)/python bench/run.py $(ARGS)

prove: .venv/dev.done  ## break it in every way we know (N=1000 cases, ARGS="--only crashes")
	@PYTHONPATH=src $(BIN)/python proof/run.py $(if $(N),--count $(N)) $(ARGS)

fuzz: .venv/fuzz.done  ## hostile input that looks for new ways through the code (N=inputs of each target, ARGS=target)
	@PYTHONPATH=src $(BIN)/python proof/guided.py $(if $(N),--count $(N)) $(ARGS)

docs: .venv/core.done  ## the generated parts of docs/
	@$(BIN)/python docs/generate.py $(ARGS)

# The newest versions that pyproject.toml allows. No address is written: whoever installs uses their own index.
PIN = uv pip compile --quiet --universal --generate-hashes --upgrade \
	--no-emit-index-url --no-header --no-annotate
lock:  ## renew the pins in requirements/ (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	@$(PIN) pyproject.toml --output-file requirements/core.txt
	@$(PIN) --group build --output-file requirements/build.txt
	@$(PIN) pyproject.toml --group dev --output-file requirements/dev.txt
	@$(PIN) --group fuzz --output-file requirements/fuzz.txt

clean:  ## remove everything that was made here
	rm -rf .venv .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .ci/mermaid/node_modules
	find src tests bench docs examples -name __pycache__ -prune -exec rm -rf {} +

SETUP = requirements/install.sh pyproject.toml
.venv/dev.done: requirements/dev.txt $(SETUP)
	@PYTHON="$(PYTHON)" requirements/install.sh dev
	@touch .venv/core.done $@

.venv/fuzz.done: requirements/fuzz.txt .venv/dev.done
	@requirements/install.sh fuzz
	@touch $@

.venv/core.done: requirements/core.txt requirements/build.txt $(SETUP)
	@PYTHON="$(PYTHON)" requirements/install.sh core
	@touch $@
