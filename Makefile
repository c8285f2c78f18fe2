# `make help` lists what there is.  Everything lives in .venv and build/; nothing needs root.
PYTHON ?= python3
PREFIX ?= /usr/local
# Another PYTHON has its own environment and build folder: they needn't be made anew when one goes to and fro.
OTHER  := $(if $(filter-out python3,$(PYTHON)),-$(subst /,-,$(patsubst /%,%,$(PYTHON))))
VENV   := .venv$(OTHER)
BIN    := $(VENV)/bin
BUILD  := build$(OTHER)

# ---- what people call
.PHONY: FORCE help build train chat-demo test python-tests c-programs c-tests lint coverage sanitize sanitize-devices fuzz-ops fuzz-sizes fuzz-programs fuzz-python tsan opencl-test cuda-test onednn-test kill-test portability instructions packages wheels container-test release install uninstall debug time-operator bench develop gen docs clean

help:           ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip

# The dependencies are those that pyproject.toml declares; this stamp is newer than they are once installed.
$(VENV)/ready: pyproject.toml tools/requirements.py | $(BIN)/python
	$(BIN)/pip install -q $$($(BIN)/python tools/requirements.py build runtime test examples)
	touch $@

# Configured again when the list of source files changes.
$(BUILD)/sources: FORCE $(VENV)/ready
	@mkdir -p $(BUILD); $(BIN)/python tools/sources.py > $@.new; $(BIN)/python tools/sources.py --tests >> $@.new
	@cmp -s $@.new $@ || mv $@.new $@
FORCE:

$(BUILD)/build.ninja: $(BUILD)/sources
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson setup $(BUILD) --buildtype=release -Doptimization=2 -Dwheel=true \
	    -Dtests=true --prefix="$(CURDIR)/$(VENV)" -Dpython.install_env=venv $(if $(wildcard $(BUILD)/meson-info),--reconfigure)
	@touch $@

build: $(BUILD)/build.ninja  ## compile, and put the package into .venv
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C $(BUILD)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson install -C $(BUILD) --quiet --no-rebuild
	@$(BIN)/python tools/remove_stale.py

train: build    ## train a small GPT on the text of Python's standard library, two to four minutes
	$(BIN)/python examples/gpt.py $(ARGS)

chat-demo: build  ## train a tiny Llama for two minutes, write it as GGUF in every format, and let it write; ARGS="--seconds 600"
	$(BIN)/python examples/chat_demo.py $(ARGS)

test: build c-tests python-tests  ## everything that tests itself; PYTHON=python3.12 for another one

# As many tests at once as there are cores, then those that measure, by themselves.
python-tests: build  ## those of Python alone, beside PyTorch where .venv has it
	$(BIN)/python -m codegen --check
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not alone" tests $(PYTEST)
	$(BIN)/python -m pytest -q -m alone tests $(PYTEST)

c-programs: build
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C $(BUILD) c-tests

c-tests: c-programs  ## the C tests, then again with failing allocations
	$(BIN)/python tools/run_c_tests.py $(BUILD)/tests/c
	$(BIN)/python tools/run_c_tests.py $(BUILD)/tests/c --fail-allocations

# The package in a folder of its own, from another build; OpenBLAS is looked for beside it.
define package
	rm -rf $(1)/package && mkdir -p $(1)/package && cp -r python/tede $(1)/package/
	cp $(1)/_C*.so $(1)/operators.json $(1)/package/tede/ && mkdir -p $(1)/package/tede/lib/tede && cp $(1)/lib/libtede.so $(1)/lib/libtede.so.0 $(1)/package/tede/lib/
	cp $(1)/lib/tede/*.so $(1)/package/tede/lib/tede/
	mkdir $(1)/package/tede/include && ln -s $(CURDIR)/include/tede $(1)/package/tede/include/
	mkdir -p $(1)/package/tede/lib/pkgconfig $(1)/package/tede/lib/cmake/tede
	cp $(1)/tede.pc $(1)/package/tede/lib/pkgconfig/ && cp $(1)/tedeConfig*.cmake $(1)/package/tede/lib/cmake/tede/
	ln -s "$$($(BIN)/python -c 'import scipy_openblas32; print(scipy_openblas32.__path__[0])')" $(1)/package/
endef

# What the tests reach: C lines by gcov, Python lines by coverage.py. Not optimised, a build and the tests take least together. Generated
# code isn't counted, so gcov needn't read it.
COVERED       := $(BUILD)-coverage
COVERED_TESTS ?= tests
# Empty: C lines alone, without what counting Python's costs.
PYTHON_LINES  ?= --cov=$(COVERED)/package/tede --cov-report=html:$(COVERED)/python --cov-report=term:skip-covered
coverage: $(VENV)/extra-coverage  ## which lines the tests reach, as pages in build-coverage/; an error below 90 % of the core's C
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson setup $(COVERED) --buildtype=plain -Doptimization=0 -Db_coverage=true -Dwheel=true \
	    -Dtests=true $(if $(wildcard $(COVERED)/meson-info),--reconfigure) > /dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C $(COVERED) all c-tests
	find $(COVERED) -name '*.gcda' -delete
	$(call package,$(COVERED))
	$(BIN)/python tools/run_c_tests.py $(COVERED)/tests/c
	$(BIN)/python tools/run_c_tests.py $(COVERED)/tests/c --fail-allocations
	PYTHONPATH=$(COVERED)/package $(BIN)/python tools/fuzz_ops.py --here
	PYTHONPATH=$(COVERED)/package COVERAGE_FILE=$(COVERED)/.coverage $(BIN)/python -m pytest -q -n auto --dist worksteal -m "not alone" \
	    -p no:cacheprovider $(PYTHON_LINES) $(COVERED_TESTS) $(PYTEST)
	find $(COVERED) -name 'meson-generated_*.gc??' -delete
	mkdir -p $(COVERED)/c
	$(BIN)/gcovr -j 2 --root . --object-directory $(COVERED) --filter src/ --filter python/csrc/ --gcov-ignore-parse-errors \
	    --gcov-ignore-errors=no_working_dir_found --merge-mode-functions=separate --html-details $(COVERED)/c/index.html \
	    --json $(COVERED)/c.json $(COVERED) > /dev/null
	$(BIN)/gcovr --root . --merge-lines --add-tracefile $(COVERED)/c.json --filter src/ --fail-under-line 90 --print-summary --txt $(COVERED)/c.txt

# An extra of pyproject.toml, once it is installed.
$(VENV)/extra-%: $(VENV)/ready
	$(BIN)/pip install -q $$($(BIN)/python tools/requirements.py $*)
	touch $@

lint: $(VENV)/extra-lint  ## ruff over the Python, clang-format and cppcheck over the C
	$(BIN)/ruff check .
	$(BIN)/python tools/format_c.py
	$(BIN)/python tools/lint_c.py

# One build under AddressSanitizer and UndefinedBehaviorSanitizer for the C tests and for Python.
SANITIZED := $(BUILD)-asan
$(SANITIZED)/package: FORCE $(VENV)/ready
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson setup $(SANITIZED) --buildtype=debug -Doptimization=0 \
	    -Db_sanitize=address,undefined -Db_lundef=false -Dwheel=true -Dpython=true -Dtests=true \
	    $(if $(wildcard $(SANITIZED)/meson-info),--reconfigure) > /dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C $(SANITIZED) all c-tests
	$(call package,$(SANITIZED))

sanitize: $(SANITIZED)/package  ## the C tests under AddressSanitizer and UndefinedBehaviorSanitizer
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(BIN)/python tools/run_c_tests.py $(SANITIZED)/tests/c

# Leaks are looked for by the tests; what Python keeps is none. A size that nothing could hold is refused, as without a sanitizer.
SANITIZED_PYTHON = LD_PRELOAD=$$(cc -print-file-name=libasan.so) UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=256 PYTHONPATH=$(SANITIZED)/package $(BIN)/python
fuzz-ops: $(SANITIZED)/package  ## every operator with arguments that it should refuse, under the sanitizers; ARGS="--sample 10" for fewer
	$(SANITIZED_PYTHON) tools/fuzz_ops.py $(ARGS)
fuzz-sizes: $(SANITIZED)/package  ## every operator with integers and tensors that no size can have, under the sanitizers
	$(SANITIZED_PYTHON) tools/fuzz_sizes.py $(ARGS)

fuzz-programs: build  ## random programs beside PyTorch; ARGS="--seed 1 --programs 20000"
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz_programs.py $(ARGS)

fuzz-regions: build  ## random programs as they are and within a region; ARGS="--seed 1 --programs 2000"
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz_regions.py $(ARGS)

fuzz-python: $(SANITIZED)/package  ## every Python function with objects of all kinds, and changed checkpoints, under the sanitizers; ARGS="--sample 10", CHECKPOINTS="--calls 100"
	$(SANITIZED_PYTHON) tools/fuzz_python.py $(ARGS)
	$(SANITIZED_PYTHON) tools/fuzz_checkpoints.py $(CHECKPOINTS)

sanitize-devices: build  ## device kernels as plain C under the sanitizers; TESTS="FILE -k NAME" for fewer
	$(BIN)/python tools/device_test.py toyc $(TESTS)

SECONDS_OF_STRESS ?= 20
tsan: $(VENV)/ready  ## eight threads that call, go backward, register and load devices, under ThreadSanitizer
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson setup $(BUILD)-tsan --buildtype=debugoptimized -Doptimization=1 \
	    -Db_sanitize=thread -Db_lundef=false -Dpython=false -Dtests=false $(if $(wildcard $(BUILD)-tsan/meson-info),--reconfigure)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C $(BUILD)-tsan
	$(BIN)/python tools/tsan.py $(BUILD)-tsan $(SECONDS_OF_STRESS)

# A build folder for each: clang-14, musl-tools, gcc-aarch64-linux-gnu with libc6-dev-arm64-cross, and qemu-user are Debian's packages.
portability: $(VENV)/ready  ## the C tests with Clang, with musl, and for aarch64 in an emulator; ONLY=musl, APT=1 installs what they need
	APT=$(APT) $(BIN)/python tools/portability.py $(BUILD) $(ONLY)

opencl-test: build  ## the tests that need an OpenCL device; without one they are skipped, and counted; APT=1 installs PoCL
	APT=$(APT) $(BIN)/python tools/device_test.py opencl $(TESTS)

cuda-test: build $(VENV)/extra-nvrtc  ## the CUDA device on a fake driver, and what is printed for it by NVRTC; no GPU is needed
	$(BIN)/python tools/device_test.py cuda $(TESTS)

onednn-test: build  ## the tests of the mkldnn layout, plain and under the sanitizers; without oneDNN they are skipped, and counted; PIP=1 installs it
	PIP=$(PIP) $(BIN)/python tools/device_test.py onednn $(TESTS)

kill-test: build  ## fifty times a random rank of four is killed at a random moment; ARGS="--runs 5 --seed 1" for others
	$(BIN)/python tests/distributed/kill_ranks.py $(ARGS)

instructions: c-programs  ## what a + b costs, with and without what may stand around a kernel, counted by callgrind
	$(BIN)/python tools/instructions.py $(BUILD)

packages: build $(VENV)/extra-packages  ## the library, the source tree and the wheel installed and tried as users do
	$(BIN)/python tools/check_packages.py

wheels: $(VENV)/extra-packages  ## a manylinux wheel for each Python that is found, tried in an empty environment, into dist/
	$(BIN)/python tools/make_wheels.py $(ARGS)

container-test:  ## CI in a fresh Debian, by podman or docker; without either it says so; ARGS="make test" for less
	$(PYTHON) tools/container_test.py $(ARGS)

release: $(VENV)/ready  ## version, changelog, tag, packages and their checks, here: VERSION=0.2.0; ARGS=--check changes nothing
	$(BIN)/python tools/release.py $(VERSION) $(ARGS)

# The library without Python, in a build folder of its own.
install: $(VENV)/ready  ## library, headers, pkg-config and CMake files, into PREFIX=/usr/local; no root for a folder of yours
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson setup $(BUILD)-install --buildtype=release -Doptimization=2 -Dpython=false \
	    --prefix="$(abspath $(PREFIX))" --libdir=lib $(if $(wildcard $(BUILD)-install/meson-info),--reconfigure) > /dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C $(BUILD)-install
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson install -C $(BUILD)-install --quiet --no-rebuild

uninstall:      ## take away what `make install` put there last
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C $(BUILD)-install uninstall
	@cd "$$(sed -n 's:/include/tede/tede\.h$$::p' $(BUILD)-install/meson-logs/install-log.txt)" 2> /dev/null && \
	    rmdir include/tede lib/cmake/tede lib/cmake lib/pkgconfig lib/tede lib include 2> /dev/null || true    # those that are empty now

debug: $(VENV)/ready  ## build without optimisation, and stop a debugger inside x + y; BATCH=1 prints the frames and ends
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson setup $(BUILD)-debug --buildtype=debug -Doptimization=0 -Dwheel=true \
	    $(if $(wildcard $(BUILD)-debug/meson-info),--reconfigure)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C $(BUILD)-debug
	$(call package,$(BUILD)-debug)
	PYTHONPATH=$(BUILD)-debug/package gdb $(if $(BATCH),-batch) -q -x tools/gdb/add.gdb --args $(BIN)/python tools/debug_add.py

time-operator: build  ## how long it takes to add an operator, build and test it; at most a minute
	$(BIN)/python tools/time_operator.py

bench: build    ## how fast tede is beside PyTorch, where .venv has that, and beside what the machine can do
	$(BIN)/python bench/bench.py $(ARGS)

# meson-python's editable install looks whether anything changed whenever tede is imported, and compiles that.
develop: $(VENV)/ready  ## the package in .venv as the sources are: rebuilt, where they changed, on import
	$(BIN)/pip install -q $$($(BIN)/python tools/requirements.py build)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pip install -q --no-build-isolation --no-deps -Cbuild-dir=$(BUILD)-editable -e .

gen: $(VENV)/ready  ## rewrite the committed outputs of the generator: include/tede/ops.h, docs/operators.md
	$(BIN)/python -m codegen --public

docs: build $(VENV)/extra-docs  ## the documentation as a site, with search: site/index.html; broken links are errors
	$(BIN)/python tools/make_docs.py

clean:          ## remove what was built
	rm -rf build build-* runs site
