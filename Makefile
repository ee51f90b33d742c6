# Three verbs: make check, make test, make docs. `make help` lists everything.
PYTHON ?= python3

.PHONY: help install check format test coverage docs site studio benchmarks benchmarks-check pictures gpu-wheels lowest mutants release-check

RELEASE = build/release
GPU_WHEELS = build/gpu-wheels
GPU_PYTHON = 3.12
# pip takes a wheel only for a platform that is named, not for an older one.
GPU_PLATFORMS = $(foreach glibc,17 24 27 28 31 34 35,manylinux_2_$(glibc)_x86_64) manylinux2014_x86_64 manylinux1_x86_64
LOWEST = build/lowest
# What those tests need beside: the group "test" pins what the lowest versions do not go with.
LOWEST_TOOLS = 'hypothesis>=6.100' 'onnx>=1.17' 'pandas>=2.2' 'pyarrow>=17' 'pytest>=8.2' 'pytest-timeout>=2.3' \
	'pytest-xdist>=3.6' 'requests>=2.32' 'scikit-learn>=1.5'
EXTRAS = serve serve-fast onnx openvino tensorflow torch cuda text video pillow heif parquet ray remote watch otel all

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install:  ## install modelflow for development into the active environment
	$(PYTHON) -m pip install 'pip>=25.1'
	$(PYTHON) -m pip install -e '.[tensorflow]' --group test --group dev

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

coverage:  ## the tests with their coverage of the runtime, then of everything (twice as long)
	COVERAGE_CORE=ctrace $(PYTHON) -m pytest -n auto --dist worksteal --cov --cov-report=
	coverage report --include='modelflow/runtime/*' --fail-under=95 | tail -n 1
	coverage report --fail-under=90 | tail -n 1

docs:  ## write the generated reference pages
	$(PYTHON) docs/generate.py

site:  ## the documentation as a site, in build/site
	$(PYTHON) -m mkdocs build --strict --quiet

pictures:  ## take the pictures of the documentation's pages again
	$(PYTHON) docs/pictures.py docs/images --used

studio:  ## build the pages of the dashboard from studio/ (Node.js; the built files are committed)
	cd studio && npm ci --no-audit --no-fund && npm run check && npm run build

lowest:  ## tests at the lowest versions that pyproject.toml allows (needs uv, ffmpeg, ImageMagick; ten minutes)
	rm -rf $(LOWEST)
	uv venv --quiet --python $(PYTHON) $(LOWEST)
	uv pip install --quiet --python $(LOWEST) --resolution lowest-direct \
		-e '.[onnx,openvino,video,serve,heif,torch,tensorflow,text]' $(LOWEST_TOOLS)
	$(LOWEST)/bin/python -m pytest -n auto tests/config tests/graph tests/runtime tests/flowunits tests/engine \
		tests/test_buffer.py tests/test_flow.py tests/test_pillow.py

mutants:  ## break the runtime on purpose, and list what no test notices (hours; ONLY="outbox kinds.normal")
	$(PYTHON) tests/mutants.py $(ONLY)

benchmarks:  ## the benchmark tables of the runtime (a quarter of an hour; on a quiet machine)
	for program in bounds overhead sessions image_pipeline chains saturated http_load import_time; do \
		echo; echo "== $$program"; $(PYTHON) benchmarks/$$program.py || exit 1; done

benchmarks-check:  ## whether the benchmark programs that "make test" leaves out still run (five minutes; with --quick)
	$(PYTHON) -m pytest -m dear_benchmark tests/benchmarks tests/examples

gpu-wheels:  ## the small packages that a GPU machine without a network lacks, in build/gpu-wheels (GPU_PYTHON=3.12)
	rm -rf $(GPU_WHEELS)
	$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version $(GPU_PYTHON) \
		$(GPU_PLATFORMS:%=--platform %) --dest $(GPU_WHEELS) --requirement benchmarks/gpu_wheels.txt
	@du -sm $(GPU_WHEELS) | { read size folder; echo "$$folder: $$size MiB"; test $$size -le 30; }

release-check:  ## a release in build/release, built and checked: wheel, sdist, hashed locks of the extras, SBOM of serve (needs --group release)
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)/locks
	$(PYTHON) -m build --outdir $(RELEASE)/dist .
	$(PYTHON) -m twine check --strict $(RELEASE)/dist/*
	check-wheel-contents $(RELEASE)/dist/*.whl
	for extra in $(EXTRAS); do \
		uv pip compile --quiet --no-header --generate-hashes --extra $$extra pyproject.toml \
			-o $(RELEASE)/locks/$$extra.txt || exit 1; done
	! grep -n '://' $(RELEASE)/locks/*
	uv venv --quiet $(RELEASE)/env
	uv pip install --quiet --python $(RELEASE)/env --require-hashes -r $(RELEASE)/locks/serve.txt
	uv pip install --quiet --python $(RELEASE)/env --no-deps $(RELEASE)/dist/*.whl
	cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON \
		-o $(RELEASE)/serve.cdx.json $(RELEASE)/env/bin/python
	$(RELEASE)/env/bin/modelflow version
