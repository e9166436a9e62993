# Everything a developer runs. Each target sets up what it needs first; when nothing changed that takes milliseconds.
.DEFAULT_GOAL := help
BIN := .venv/bin

# Floors 0 to 2 (words, core, forms): no Java, no network, seconds. Folders that do not exist yet are left out.
QUICK_TESTS := $(wildcard tests/core tests/landing tests/spec tests/test_floors.py)
# Per cent of the lines and branches of floors 0 to 2 (pyproject.toml) that the tests have to reach.
COVERAGE ?= 99
# A tool for developers on demand: it is in no lock, and `make setup` does not install it.
COSMIC_RAY := 8.7.0
# Some images set it: each process of the tests, and there are hundreds, would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup test quick exhaustive laws mutants walk faults matrix lint docs sbom catalogue release bench clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || sed -n 's/:.*##/ /p' Makefile

setup: ## Python packages, Java and jars for development (once, about a minute)
	@scripts/setup.sh --dev

test: setup lint ## everything; what CI runs
	FEATURELIB_CASES=20000 $(BIN)/pytest -n 2 --dist loadscope --cov --cov-report=
	$(BIN)/coverage report --skip-covered --show-missing --fail-under=$(COVERAGE)

quick: lint ## lint and the tests that need no Java, in a minute or two
	FEATURELIB_CASES=1000 $(BIN)/pytest -q -n 2 --dist loadfile $(QUICK_TESTS)

exhaustive: lint ## the core against the plain oracle on a million random cases
	FEATURELIB_CASES=1000000 $(BIN)/pytest -q tests/core/test_answers.py

laws: lint ## landing lines left out of recorded and random clusters: does a feature become READY by it? SETS=100000, SEED=7
	$(BIN)/python -m tests.core.deletions --sets $(or $(SETS),100000) $(if $(SEED),--seed $(SEED))

mutants: lint ## the core's rules and search changed token by token: does a test notice? (about half an hour; not in CI)
	$(BIN)/uv run --no-sync --with cosmic-ray==$(COSMIC_RAY) python -m tests.mutation $(MODULES)

walk: setup ## a random walk of real clusters, 3.7 to 4.4, beside what is said of them: STEPS=1000, SEED=7 to repeat one (hours)
	$(BIN)/python -m tests.walk --steps $(or $(STEPS),1000) $(if $(SEED),--seed $(SEED))

faults: setup ## real nodes frozen, killed and cut off while a request is under way, and what was said beside the metadata log: RUNS=100, SEED=7
	$(BIN)/python -m tests.faults.sweep --runs $(or $(RUNS),100) $(if $(SEED),--seed $(SEED))

matrix: setup ## the night on the samples with each Spark and each Python, tables compared: SPARKS="4.0.1 4.1.0" PYTHONS=3.12
	$(BIN)/python -m scripts.matrix $(if $(SPARKS),--sparks $(SPARKS)) $(if $(PYTHONS),--pythons $(PYTHONS))

lint:
	@scripts/setup.sh --dev --no-java
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m scripts.check_language

docs: ## the pages of docs/ as a site in build/site; a link that leads nowhere ends it
	@scripts/setup.sh --dev --no-java
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html (to search in it: $(BIN)/python -m http.server --directory build/site)"

sbom: ## what a checkout runs on, with hashes and licences, as CycloneDX in build/sbom.json
	@scripts/setup.sh --dev --no-java
	$(BIN)/python -m scripts.write_sbom

catalogue: ## Kafka's features, levels and dialects per release as one JSON file with its schema in build/
	@scripts/setup.sh --dev --no-java
	$(BIN)/python -m scripts.write_catalogue

release: ## wheel, sdist, catalogue, bill of materials and checksums in build/release; checked, not published
	@scripts/setup.sh --dev --no-java
	$(BIN)/python -m scripts.make_release

bench: setup ## the benchmarks, one after the other
	$(BIN)/python -m benchmarks

clean: ## remove all that was made here, .venv and .cache too
	rm -rf .venv .cache .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build spark-warehouse metastore_db derby.log
	find featurelib jobs tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
