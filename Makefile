# `make` lists the targets, which install what they need. ./demo and ./check do not need make.
.DEFAULT_GOAL := help
.PHONY: help tools install demo check test lint format types layers contracts slow mutants mutation faults sending fidelity fidelity-mutants fidelity-runs conformance lies sim machine soak reporters fuzz bench slither halmos dashboard picture docs reference events house vocabulary nightly cover wheel release images constraints initial vendored clients screens clean

BIN := .venv/bin
export PATH := $(CURDIR)/.venv/bin:$(PATH)

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What ./check installs; nothing is done where it is there.
tools:
	@. .ci/python.sh && "$$PYTHON" bootstrap.py check

install test lint format types layers contracts slow mutants mutation faults sending: tools
fidelity fidelity-mutants fidelity-runs conformance lies sim machine soak fuzz slither halmos bench: tools
dashboard reporters: tools
picture docs reference events house vocabulary nightly cover initial wheel release images: tools
constraints vendored clients screens: tools

install:  ## Make .venv and node_modules, and install the commit hooks
	pre-commit install

demo:  ## Show the whole product on a local chain (ARGS="--keep" leaves it running)
	./demo $(ARGS)

check:  ## Everything that must be true before a commit; what CI runs
	./check

test:  ## Run the quick tests (ARGS="-k outbox" for some of them)
	pytest -m 'not slow' -n 2 --dist worksteal $(ARGS)

lint:  ## Check the style of the code, and the spelling of code and pages
	ruff check .
	ruff format --check .
	codespell docs README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md oracle devnet lab gateway

format:  ## Rewrite the code in house style
	ruff check --fix .
	ruff format .

types:  ## Read the code for types
	mypy

layers:  ## Read the code for its architecture
	lint-imports

contracts:  ## Compile the Solidity contracts into abi/
	node contracts/build.mjs

slow:  ## Run the long tests, the nightly ones too, and every property with all its examples
	pytest -m 'slow or hypothesis' -n 3 --dist worksteal $(ARGS)

mutants:  ## Take each defence away and see that its tests notice (ARGS=--quick for a few)
	python tests/mutants/run.py $(ARGS)

mutation:  ## Change the pure rooms by mutmut and count what no test notices (OF="oracle.domain.scoring.*")
	pip install --quiet --disable-pip-version-check mutmut==3.8.1
	mutmut run $(if $(OF),"$(OF)")
	mutmut export-cicd-stats

faults:  ## Play the 76 fault cases of ingest (ARGS="-k case_29" for one of them)
	pytest tests/faults/ingest $(ARGS)

sending:  ## Play the 74 fault cases of publishing (ARGS="-k case_f09" for one of them)
	pytest tests -k test_case_f $(ARGS)

fidelity:  ## Write what became of every statement of the sources, into build/fidelity.md
	python -m tests.house.pages.fidelity

fidelity-mutants:  ## Empty what each of its rows names, and see that its test falls (ARGS="--only Q14")
	python tests/mutants/emptied_rows.py $(ARGS)

fidelity-runs:  ## Record which cited functions the demos run, half an hour (ARGS='--only "./demo"')
	python -m tests.house.reach.record $(ARGS)

conformance:  ## Compare the JavaScript of /verify with replay (HISTORIES=2000 SEED=text, default: HEAD)
	python -m tests.conformance.run --histories $(or $(HISTORIES),2000) --seed "$(or $(SEED),$(shell git rev-parse HEAD))" $(ARGS)

lies:  ## Tell every lie in every company, into build/lies.md (ARGS="--cells bounded --seed 2")
	python -m tests.faults.lies.run $(ARGS)

sim:  ## Publish ten thousand rounds through seeded chaos (ROUNDS=1000 ARGS="--naive")
	python -m tests.simulation.run --rounds $(or $(ROUNDS),10000) $(ARGS)

machine:  ## Let anything happen to an index, a thousand times (EXAMPLES=100 for fewer)
	QOS_ORACLE_MACHINE_EXAMPLES=$(or $(EXAMPLES),1000) pytest tests/properties/machine --timeout 0 $(ARGS)

soak:  ## Index a million events from endpoints that fail by lot (ARGS="--events 100000")
	python -m tests.soak.run $(ARGS)

reporters:  ## Compare the roots of three reporters over a million events (ARGS="--events 100000")
	python -m tests.soak.reporters $(ARGS)

fuzz:  ## Call the oracle contracts a hundred thousand times at random (CALLS=3000 SEED=2)
	python tests/contracts/fuzz/run.py --calls $(or $(CALLS),100000) --seed $(or $(SEED),1)

slither:  ## Let Slither and solhint read the contracts; compare with their baseline (ARGS=--write)
	python -m tests.contracts.audit.slither $(ARGS)

halmos:  ## Prove what the contracts' arithmetic, quorum and windows promise, for all inputs
	python -m tests.contracts.audit.halmos

bench:  ## Measure gas, speed and latency (BENCH="fold decode" for some of them)
	python benchmarks/run.py $(BENCH)

dashboard:  ## Draw the Grafana dashboard anew
	PYTHONPATH=ops/grafana:ops/docs python -m dashboard.drawing ops/grafana/qos-oracle.json

picture:  ## Play the demo, and draw docs/demo.svg from what was to be seen (two minutes)
	PYTHONPATH=ops/docs python -m picture docs/demo.svg

docs:  ## Build the documents as a site into build/site; every link is looked up
	python bootstrap.py docs
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet

reference:  ## Write settings, commands, metrics, alerts, tables … into docs/reference/
	PYTHONPATH=ops/docs python -m reference docs/reference

events:  ## Write the tables of docs/reference/events-and-jsonl.md from the classes of events
	PYTHONPATH=ops/docs python -m reference.event_tables docs/reference/events-and-jsonl.md

house:  ## Measure the house: rooms, doubles, dangling citations (TREE=/a/clone ARGS=--places)
	python -m tests.house.measuring.measure $(TREE) $(ARGS)

vocabulary:  ## Write lower numbers of empty names and dialect words to tests/house/vocabulary.json
	python -m tests.house.vocabulary

nightly:  ## Everything that CI leaves out or plays in short, one after the other
	$(MAKE) --keep-going slow mutants fidelity-mutants lies sim machine soak fuzz conformance
	python benchmarks/run.py || [ $$? -eq 3 ]

cover:  ## Run the quick tests and show what they miss
	pytest -m 'not slow' --cov --cov-report=term-missing

initial:  ## Make the one migration of before the first release anew from the tables
	PYTHONPATH=. python migrations/squash.py

wheel:  ## Build the wheel into dist/
	python -m build --wheel --no-isolation

release:  ## Build all packages twice, compare, and write dist/ (ARGS=--tags: images by tag)
	PYTHONPATH=ops/release python -m release $(ARGS)

images:  ## Ask the registries for the digests of our base images, and write them down
	PYTHONPATH=ops/release python -m release.images

constraints:  ## Pin every package anew, with hashes (ARGS=--upgrade: the newest versions)
	PYTHONPATH=.:ops/release python -m release.constraints $(ARGS)

vendored:  ## Bring what the pages load in a browser from npm, as the lock file says
	PYTHONPATH=.:ops/release python -m release.vendored

clients:  ## Write the types of the clients (clients/) from the OpenAPI description; npm for TypeScript
	PYTHONPATH=ops/clients python -m client_types

screens:  ## Play a chain and take the pictures of its pages that the docs show (needs Chromium)
	python -m tests.browser.screens

clean:  ## Remove what tools leave behind
	rm -rf dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
