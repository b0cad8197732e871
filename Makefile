# `make` lists the targets, which install what they need. ./demo and ./check do not need make.
.DEFAULT_GOAL := help
.PHONY: help tools install demo check test lint format types layers contracts slow mutants mutation faults sending fidelity fidelity-mutants fidelity-runs conformance lies sim machine soak reporters long-run fuzz bench slither halmos dashboard picture docs reference house vocabulary nightly cover wheel release oci oci-try images constraints initial vendored clients screens clean

BIN := .venv/bin
export PATH := $(CURDIR)/.venv/bin:$(PATH)

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The environment that ./check installs; does nothing if it exists.
tools:
	@. .ci/python.sh && "$$PYTHON" bootstrap.py check

install test lint format types layers contracts slow mutants mutation faults sending: tools
fidelity fidelity-mutants fidelity-runs conformance lies sim machine soak fuzz slither halmos bench: tools
dashboard reporters long-run: tools
picture docs reference house vocabulary nightly cover initial wheel release oci oci-try images: tools
constraints vendored clients screens: tools

install:  ## Create .venv and node_modules, and install the commit hooks
	pre-commit install

demo:  ## Run the complete oracle on a local chain (ARGS="--keep" leaves it running)
	./demo $(ARGS)

check:  ## Run everything that must pass before a commit; CI runs the same
	./check

test:  ## Run the quick tests (ARGS="-k outbox" selects some of them)
	pytest -m 'not slow' -n 3 --dist worksteal $(ARGS)

lint:  ## Check the code style, and the spelling in code and docs
	ruff check .
	ruff format --check .
	codespell docs README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md oracle devnet lab gateway

format:  ## Format the code
	ruff check --fix .
	ruff format .

types:  ## Check the types (mypy)
	mypy

layers:  ## Check the import rules between packages (import-linter)
	lint-imports

contracts:  ## Compile the Solidity contracts into abi/
	node contracts/build.mjs

slow:  ## Run the slow and nightly tests, and every property test with all its examples
	pytest -m 'slow or hypothesis' -n 4 --dist worksteal $(ARGS)

mutants:  ## Remove each defence and check that its tests fail (ARGS=--quick runs a few)
	python tests/mutants/run.py $(ARGS)

mutation:  ## Mutate pure packages with mutmut, list survivors (OF="oracle.domain.scoring.*")
	pip install --quiet --disable-pip-version-check mutmut==3.8.1
	mutmut run $(if $(OF),"$(OF)")
	mutmut export-cicd-stats

faults:  ## Run the 76 ingest fault cases (ARGS="-k case_29" runs one of them)
	pytest tests/faults/ingest $(ARGS)

sending:  ## Run the 74 publishing fault cases (ARGS="-k case_f09" runs one of them)
	pytest tests -k test_case_f $(ARGS)

fidelity:  ## Write how each statement of the sources is implemented into build/fidelity.md
	python -m tests.house.pages.fidelity

fidelity-mutants:  ## Empty each function a fidelity row cites; its test must fail (ARGS="--only Q14")
	python tests/mutants/emptied_rows.py $(ARGS)

fidelity-runs:  ## Record which cited functions the demos run, 30 minutes (ARGS='--only "./demo"')
	python -m tests.house.reach.record $(ARGS)

conformance:  ## Compare /verify with replay on random histories (HISTORIES=2000 SEED=text, default: HEAD)
	python -m tests.conformance.run --histories $(or $(HISTORIES),2000) --seed "$(or $(SEED),$(shell git rev-parse HEAD))" $(ARGS)

lies:  ## Run every lying-endpoint case into build/lies.md (ARGS="--cells bounded --seed 2")
	python -m tests.faults.lies.run $(ARGS)

sim:  ## Publish ten thousand rounds with seeded faults (ROUNDS=1000 ARGS="--naive")
	python -m tests.simulation.run --rounds $(or $(ROUNDS),10000) $(ARGS)

machine:  ## Run the stateful index test with a thousand examples (EXAMPLES=100 for fewer)
	QOS_ORACLE_MACHINE_EXAMPLES=$(or $(EXAMPLES),1000) pytest tests/properties/machine --timeout 0 $(ARGS)

soak:  ## Index a million events from endpoints with random faults (ARGS="--events 100000")
	python -m tests.soak.run $(ARGS)

reporters:  ## Compare the roots of three reporters over a million events (ARGS="--events 100000")
	python -m tests.soak.reporters $(ARGS)

long-run:  ## Run three reporters on PostgreSQL, chain 10 times faster (ARGS="--hours 2 --speed 10")
	python -m tests.soak.long_run $(ARGS)

fuzz:  ## Make 100,000 random calls to the oracle contracts (CALLS=3000 SEED=2)
	python tests/contracts/fuzz/run.py --calls $(or $(CALLS),100000) --seed $(or $(SEED),1)

slither:  ## Run Slither and solhint; compare with the baseline (ARGS=--write)
	python -m tests.contracts.audit.slither $(ARGS)

halmos:  ## Prove the contracts' arithmetic, quorum and windows for all inputs
	python -m tests.contracts.audit.halmos

bench:  ## Measure gas, speed and latency (BENCH="fold decode" runs some of them)
	python benchmarks/run.py $(BENCH)

dashboard:  ## Generate the Grafana dashboard
	PYTHONPATH=ops/grafana:ops/docs python -m dashboard.drawing ops/grafana/qos-oracle.json

picture:  ## Run the demo and draw docs/demo.svg from its screen (two minutes)
	PYTHONPATH=ops/docs python -m picture docs/demo.svg

docs:  ## Build the docs site into build/site and check every link
	python bootstrap.py docs
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet

reference:  ## Generate docs/reference/: settings, commands, metrics, alerts, tables …
	PYTHONPATH=ops/docs python -m reference docs/reference

house:  ## Measure packages, duplicates and broken references (TREE=/a/clone ARGS=--places)
	python -m tests.house.measuring.measure $(TREE) $(ARGS)

vocabulary:  ## Lower the counts of filler and banned words in tests/house/vocabulary.json
	python -m tests.house.vocabulary

nightly:  ## Run everything that CI leaves out or shortens
	$(MAKE) --keep-going slow mutants fidelity-mutants lies sim machine soak fuzz conformance halmos
	python benchmarks/run.py || [ $$? -eq 3 ]

cover:  ## Run the quick tests and report the uncovered lines
	pytest -m 'not slow' --cov --cov-report=term-missing

initial:  ## Regenerate the initial migration from the table definitions (before 0.1.0 only)
	PYTHONPATH=. python migrations/squash.py

wheel:  ## Build the wheel into dist/
	python -m build --wheel --no-isolation

release:  ## Build packages, docs and images twice, compare, write dist/ (ARGS="--key FILE" signs)
	python bootstrap.py docs
	PYTHONPATH=ops/release python -m release $(ARGS)

oci:  ## Build container images from Debian's packages into dist/ (root; ARGS="deb URL bookworm main")
	PYTHONPATH=.:ops/release python -m release.oci $(ARGS)

oci-try:  ## Start the container images in dist/ in a chroot (root; ARGS=FOLDER: those of a release)
	PYTHONPATH=.:ops/release python -m release.try_images $(ARGS)

images:  ## Pin the base images to the current digests of the registries
	PYTHONPATH=ops/release python -m release.images

constraints:  ## Pin every package with hashes (ARGS=--upgrade: the newest versions)
	PYTHONPATH=.:ops/release python -m release.constraints $(ARGS)

vendored:  ## Copy the browser libraries of the pages from npm, as the lock file pins them
	PYTHONPATH=.:ops/release python -m release.vendored

clients:  ## Generate the clients' types from the OpenAPI description (TypeScript needs npm)
	PYTHONPATH=ops/clients python -m client_types

screens:  ## Take the screenshots of the pages for the docs (needs Chromium)
	python -m tests.browser.screens

clean:  ## Remove generated files and caches
	rm -rf dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
