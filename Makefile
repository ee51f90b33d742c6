# Three verbs: make check, make test, make docs. `make help` lists everything.
PYTHON ?= python3

.PHONY: help install check format test docs site studio benchmarks mutants

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install:  ## install modelflow for development into the active environment
	$(PYTHON) -m pip install -e '.[tensorflow,test,dev]'

check:  ## lint, formatting, types, import contracts
	ruff check .
	ruff format --check .
	mypy
	lint-imports

format:  ## mend what the linter can mend, and format
	ruff check --fix .
	ruff format .

test:  ## the tests, in parallel
	$(PYTHON) -m pytest -n auto

docs:  ## write the generated reference pages anew
	$(PYTHON) docs/generate.py

site:  ## the documentation as a site, in build/site
	$(PYTHON) -m mkdocs build --strict --quiet

studio:  ## build the pages of the dashboard from studio/ (Node.js; the built files are committed)
	cd studio && npm ci --no-audit --no-fund && npm run check && npm run build

mutants:  ## break the runtime on purpose, and list what no test notices (hours; ONLY="outbox kinds.normal")
	$(PYTHON) tests/mutants.py $(ONLY)

benchmarks:  ## the benchmark tables of the runtime (a quarter of an hour; on a quiet machine)
	for program in bounds overhead sessions image_pipeline chains saturated http_load import_time; do \
		echo; echo "== $$program"; $(PYTHON) benchmarks/$$program.py || exit 1; done
