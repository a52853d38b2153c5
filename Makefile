# The front doors. Every target first checks the set-up (third_party/install.sh, a fraction of a second when nothing is
# missing), then configures and builds through CMakePresets.json; each may be repeated at any time.
# On a machine without apt, install by hand what third_party/README.md lists and pass SETUP=true.
SETUP ?= third_party/install.sh
CTEST ?= ctest
OUT := out/matvans_sizes

.PHONY: ecmv bench test asan test-neon setup setup-neon clean help
.DEFAULT_GOAL := ecmv

ecmv: setup
	cmake --preset cpu
	cmake --build --preset cpu --target ecmv

bench: ecmv
	mkdir -p $(OUT)
	build/ecmv run experiments/configs/matvans_sizes.yaml --resume -o $(OUT)/records.jsonl
	build/ecmv report $(OUT)/records.jsonl -o $(OUT)

test: setup
	cmake --preset cpu
	cmake --build --preset cpu
	$(CTEST) --preset cpu

asan: setup
	cmake --preset asan
	cmake --build --preset asan
	$(CTEST) --preset asan

test-neon: setup-neon
	cmake --preset neon
	cmake --build --preset neon
	$(CTEST) --preset neon

setup:
	@$(SETUP)

setup-neon:
	@$(SETUP) neon

clean:
	rm -rf build build-asan build-neon

help:
	@echo "make             builds build/ecmv"
	@echo "make bench       runs the paper's experiment, verified; records, tables and figures go to $(OUT)"
	@echo "                 (cases finished there are kept: remove the folder to measure afresh)"
	@echo "make test        builds and runs all tests"
	@echo "make asan        the same tests under the address and undefined-behaviour sanitizers"
	@echo "make test-neon   the kernel tests compiled for 64-bit ARM, run under qemu"
	@echo "make setup       installs what is missing (every target above does that first)"
	@echo "make clean       removes the build folders; results in out/ stay"
