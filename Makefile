# Everything a developer runs. Needs make and a Python of at least 3.11; what else it takes goes into $(VENV).
#
#   make test PYTHON=python3.13 VENV=.venv-3.13      the same, with another Python beside the first

PYTHON ?= python3
VENV ?= .venv
COVERAGE ?= --cov --cov-report=term

MAKEFLAGS += --no-print-directory
BIN := $(VENV)/bin
RUN := "$(BIN)/python" -m
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# Three stamps, so that the demo need not wait for the checkers, nor the tests for Sphinx. All are remade when
# pyproject.toml changes.
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs

.PHONY: help venv demo test check format bench docs wheel clean python
.DELETE_ON_ERROR:

help:  ## list the targets
	@echo "make <target> [PYTHON=$(PYTHON)] [VENV=$(VENV)]"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' Makefile

venv: $(DEV)  ## make the environment, with the library (editable) and every tool
	@echo "ready: . $(BIN)/activate"

demo: $(RUNTIME)  ## run the demo, which needs no key and no network
	@$(RUN) examples.demo

test: $(DEV)  ## run the tests and measure their coverage (COVERAGE= does not)
	@echo "pytest on $$("$(BIN)/python" -V) in $(VENV):"
	@$(RUN) pytest $(COVERAGE)

check: $(DEV)  ## format, lint, and both type checkers, changing nothing
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	$(RUN) pyright --pythonpath "$(BIN)/python"

format: $(DEV)  ## format, and fix what the linter can fix
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

bench: $(DEV)  ## measure everything in a quarter of an hour (BENCH=--quick in four minutes), and write docs/performance.md
	@$(RUN) benchmarks $(BENCH); code=$$?; $(RUN) benchmarks.report && exit $$code

docs: $(DOCS)  ## build the docs into docs/_build, with warnings as errors
	$(RUN) sphinx --quiet --nitpicky --fail-on-warning --doctree-dir docs/_build/doctrees docs docs/_build/html
	@echo "$(CURDIR)/docs/_build/html/index.html"

wheel: $(DEV)  ## build sdist and wheel into dist/, and look into the wheel
	rm -rf dist
	$(RUN) build --quiet
	"$(BIN)/check-wheel-contents" dist/*.whl

clean:  ## remove all of it: environments (.venv, .venv-*), caches, and what was built
	rm -rf .venv .venv-* build dist *.egg-info .coverage .coverage.* htmlcov
	rm -rf docs/_build docs/operators docs/reference
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): pyproject.toml | python
	"$(PYTHON)" -m venv "$(VENV)"
	$(RUN) pip install -qq --upgrade "pip>=25.1"
	$(RUN) pip install -qq --editable .
	@touch "$@"

$(DEV): $(RUNTIME)
	$(RUN) pip install -qq --group dev
	@touch "$@"

$(DOCS): $(RUNTIME)
	$(RUN) pip install -qq --group docs
	@touch "$@"

# Whether $(PYTHON) will do, and whether an environment that is there was made with it. The second is asked only of a
# PYTHON that somebody named: the default may change under a venv without harm.
NAMED := $(filter command environment,$(firstword $(origin PYTHON)))

python:
	@"$(PYTHON)" -c 'import sys; v = "%d.%d.%d" % sys.version_info[:3]; sys.exit(0 if sys.version_info >= (3, 11) else \
	  "orx_rx: expected Python 3.11 or newer, got " + v + " (" + sys.executable + "). Name another: make PYTHON=python3.12 ...")'
	@if [ -n "$(NAMED)" ] && [ -x "$(BIN)/python" ]; then \
	  version='import sys; print("%d.%d" % sys.version_info[:2])'; \
	  want=$$("$(PYTHON)" -c "$$version"); got=$$("$(BIN)/python" -c "$$version"); \
	  if [ "$$want" != "$$got" ]; then \
	    echo "orx_rx: expected $(VENV) to hold Python $$want, got $$got. Name another: make VENV=.venv-$$want ..." >&2; exit 1; \
	  fi; \
	fi
