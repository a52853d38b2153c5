# The front doors. Every target first checks the set-up (third_party/install.sh, a fraction of a second when nothing is
# missing), then configures and builds through CMakePresets.json; each may be repeated at any time.
# On a machine without apt, install by hand what third_party/README.md lists and pass SETUP=true.
# CMAKE_FLAGS are handed to every configure step: make CMAKE_FLAGS=-DECMV_CUDA=OFF
SETUP ?= third_party/install.sh
CMAKE_FLAGS ?=
CTEST ?= ctest
OUT := out/matvans_sizes
QUICK := out/quick
PREFIX ?= /usr/local
PYTHON ?= python3

.PHONY: ecmv emulator quick bench install wheel test gpu-test lint asan tsan fuzz test-neon clean help
.PHONY: setup setup-neon setup-lint setup-fuzz setup-cluster setup-python
.DEFAULT_GOAL := ecmv

ecmv: setup
	cmake --preset cpu $(CMAKE_FLAGS)
	cmake --build --preset cpu --target ecmv ecmv_library ecmv_device_plugins

emulator: setup
	cmake --preset cpu $(CMAKE_FLAGS) -DECMV_EMULATOR=ON
	cmake --build --preset cpu --target ecmv ecmv_emulator

quick: ecmv
	mkdir -p $(QUICK)
	build/ecmv run experiments/configs/quick.yaml --force -o $(QUICK)/records.jsonl
	build/ecmv report $(QUICK)/records.jsonl -o $(QUICK) > /dev/null

bench: ecmv
	mkdir -p $(OUT)
	build/ecmv run experiments/configs/matvans_sizes.yaml --resume -o $(OUT)/records.jsonl
	build/ecmv report $(OUT)/records.jsonl -o $(OUT)

install: setup
	cmake --preset cpu $(CMAKE_FLAGS)
	cmake --build --preset cpu --target ecmv ecmv_library ecmv_plugins
	cmake --install build --prefix $(PREFIX)

# CMAKE_FLAGS=-DCMAKE_CUDA_ARCHITECTURES=... chooses the GPUs that it is for.
wheel: setup-python
	cmake --preset cpu $(CMAKE_FLAGS)
	cmake --build --preset cpu --target ecmv ecmv_library ecmv_device_plugins
	$(PYTHON) experiments/python/make_wheel.py build out/wheel

test: setup
	cmake --preset cpu $(CMAKE_FLAGS)
	cmake --build --preset cpu
	$(CTEST) --preset cpu

# Exit code 6 of the command: the backend has no device here, and the line above says why.
gpu-test: setup
	cmake --preset cpu $(CMAKE_FLAGS)
	cmake --build --preset cpu
	$(CTEST) --preset cpu -L gpu
	@for backend in cuda hip; do \
	  echo "=== smoke on $$backend"; \
	  build/ecmv run smoke -a backend=$$backend --require-backend $$backend --force \
	    -o out/gpu-test/$$backend.jsonl; status=$$?; \
	  [ $$status -eq 0 ] || [ $$status -eq 6 ] || exit $$status; \
	done

lint: setup-lint
	cmake --preset cpu $(CMAKE_FLAGS)
	tests/lint/format.sh
	tests/lint/headers.sh build
	cmake --build --preset cpu --target test_rooms
	build/test_rooms

asan: setup
	cmake --preset asan $(CMAKE_FLAGS)
	cmake --build --preset asan
	$(CTEST) --preset asan

tsan: setup
	cmake --preset tsan $(CMAKE_FLAGS)
	cmake --build --preset tsan
	$(CTEST) --preset tsan

FUZZ_SECONDS ?= 60
fuzz: setup-fuzz
	cmake --preset fuzz $(CMAKE_FLAGS)
	cmake --build --preset fuzz
	tests/fuzz/run.sh build-fuzz $(FUZZ_SECONDS)

test-neon: setup-neon
	cmake --preset neon $(CMAKE_FLAGS)
	cmake --build --preset neon
	$(CTEST) --preset neon

setup:
	@$(SETUP)

setup-lint:
	@$(SETUP) lint

setup-fuzz:
	@$(SETUP) fuzz

setup-cluster:
	@$(SETUP) cluster

setup-python:
	@$(SETUP) python

setup-neon:
	@$(SETUP) neon

clean:
	rm -rf build build-asan build-tsan build-fuzz build-neon

help:
	@echo "make             builds build/ecmv and, where nvcc or hipcc is found, the GPU backends for it"
	@echo "make emulator    build/ecmv and the emulator, which runs GPU kernels on the host; make leaves it out"
	@echo "make quick       three codecs, a report with figures in $(QUICK): two minutes after the build"
	@echo "make bench       runs the paper's experiment, verified; records, tables and figures go to $(OUT)"
	@echo "                 (cases finished there are kept: remove the folder to measure afresh)"
	@echo "make install     builds and installs the command, the library and its headers to PREFIX ($(PREFIX))"
	@echo "make wheel       builds a Python wheel with command, library and GPU plugins in it: out/wheel"
	@echo "make test        builds and runs all tests"
	@echo "make gpu-test    the tests of the GPU backends and the smoke config on this machine's GPUs"
	@echo "make lint        clang-format, every header compiles alone, and the rules for folders, lengths and names"
	@echo "make asan        the same tests under the address and undefined-behaviour sanitizers"
	@echo "make tsan        what several threads and processes do together, under the thread sanitizer"
	@echo "make fuzz        FUZZ_SECONDS=$(FUZZ_SECONDS) of libFuzzer for each target (clang); out/fuzz keeps failures"
	@echo "make test-neon   the kernel tests compiled for 64-bit ARM, run under qemu"
	@echo "make setup       installs what is missing (every target above does that first)"
	@echo "make clean       removes the build folders; results in out/ stay"
	@echo "CMAKE_FLAGS=...  hands options to CMake, which keeps them, e.g. make CMAKE_FLAGS=-DECMV_CUDA=OFF"
