# What one does with Knapsack, one word each; `make help` lists them. CMake does the building (CMakeLists.txt).
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

JOBS ?= $(shell nproc)
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
MODEL ?= models/SmolLM2-135M-Instruct.Q4_1.gguf
TIME ?= 60
# Also there: base tensor program.
ARM64_TESTS ?= kernels

# One cargo target folder and one compiler cache for all builds of this checkout.
export KNAPSACK_CARGO_TARGET_DIR ?= $(CURDIR)/.cache/cargo
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)

# Sanitized builds: little optimisation, which compiles faster and reads better, and every check on (no NDEBUG).
comma := ,
sanitize = -DKNAPSACK_SANITIZE=$(1) -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -D_GLIBCXX_ASSERTIONS"
configure = cmake -S . -B $(1) -G Ninja -DCMAKE_BUILD_TYPE=$(2) $(3) >.cache/$(1).log 2>&1 || { cat .cache/$(1).log; exit 1; }

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## set up, build, fetch SmolLM2 and talk to it
	@tools/setup/setup.sh demo
	@$(call configure,$(BUILD),Release,)
	@cmake --build $(BUILD) --target knapsack
	@tools/demo.sh $(BUILD)/src/knapsack $(MODEL)

.PHONY: build
build: ## set up and build everything
	@tools/setup/setup.sh build
	@$(call configure,$(BUILD),Release,)
	@cmake --build $(BUILD)

.PHONY: test
test: ## set up, build and run all tests (offline after set-up)
	@tools/setup/setup.sh test
	@$(call configure,$(BUILD),Release,)
	@cmake --build $(BUILD)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

.PHONY: test-full
test-full: ## the long tests: larger models, other engines (fetches them; about an hour the first time)
	@tools/setup/setup.sh full
	@$(call configure,$(BUILD),Release,)
	@cmake --build $(BUILD)
	@.venv/bin/python tools/test_full.py --binary $(BUILD)/src/knapsack

.PHONY: format
format: ## clang-format everything
	@tools/setup/setup.sh lint
	@tools/lint/format --fix

.PHONY: lint
lint: lint-quick licences tidy ## all lints: layers, lists, text, paths, licences, clang-format, clang-tidy

.PHONY: lint-quick
lint-quick: ## the lints that take seconds (all but clang-tidy)
	@tools/setup/setup.sh lint
	@tools/lint/all

.PHONY: tidy
tidy: ## clang-tidy over the sources that changed since they passed
	@tools/setup/setup.sh lint
	@$(call configure,$(BUILD),Release,)
	@cmake --build $(BUILD) --target knap_build_info
	@tools/lint/tidy $(BUILD)

.PHONY: licences
licences: ## the table of crates in docs/dependencies.md is that of Cargo.lock
	@tools/setup/setup.sh build
	@tools/licences.py --check

.PHONY: fuzz
fuzz: ## fuzz each parser for TIME seconds (60)
	@tools/setup/setup.sh fuzz
	@$(call configure,build-fuzz,RelWithDebInfo,-DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 -DKNAPSACK_FUZZ=ON -DKNAPSACK_TESTS=OFF $(call sanitize,address$(comma)undefined))
	@cmake --build build-fuzz --target fuzz_targets
	@tools/fuzz.sh build-fuzz $(TIME)

.PHONY: asan
asan: ## all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/setup/setup.sh test
	@$(call configure,build-asan,RelWithDebInfo,$(call sanitize,address$(comma)undefined))
	@cmake --build build-asan
	@ctest --test-dir build-asan --output-on-failure -j $(JOBS)

.PHONY: tsan
tsan: ## the threaded tests under ThreadSanitizer
	@tools/setup/setup.sh test
	@$(call configure,build-tsan,RelWithDebInfo,$(call sanitize,thread))
	@cmake --build build-tsan --target threaded_tests
	@ctest --test-dir build-tsan --output-on-failure -j $(JOBS) -L '^(base|kernels|program|runtime)$$'

.PHONY: arm64
arm64: ## cross-compile the kernels for 64-bit ARM and test them under qemu
	@tools/setup/setup.sh arm64
	@$(call configure,build-arm64,Release,-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DKNAPSACK_CORE_ONLY=ON)
	@cmake --build build-arm64 --target $(ARM64_TESTS:%=test_%)
	@tools/arm64.sh build-arm64 $(ARM64_TESTS)

.PHONY: bench
bench: ## measure this machine (kernels, prefill, decode)
	@tools/setup/setup.sh demo
	@$(call configure,build-bench,Release,-DKNAPSACK_BENCH=ON -DKNAPSACK_TESTS=OFF)
	@cmake --build build-bench
	@tools/bench.sh build-bench $(MODEL)

.PHONY: install
install: ## install below DESTDIR/PREFIX: program, libraries, headers, CMake package, man page, completions
	@tools/setup/setup.sh build
	@$(call configure,build-install,Release,-DKNAPSACK_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX))
	@cmake --build build-install
	@DESTDIR=$(DESTDIR) cmake --install build-install

.PHONY: clean
clean: ## remove the builds (keeps models/, .venv/ and .cache/)
	@rm -rf build build-*

.PHONY: distclean
distclean: clean ## remove all that git does not know, models and caches included
	@rm -rf .venv .cache
	@find models -mindepth 1 -maxdepth 1 ! -name '*.json' -exec rm -rf {} +
