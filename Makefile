# accelmux: `make help` says what there is.
# A fresh machine needs Go, make and a C compiler (for the race detector, and for
# the NVIDIA backend).

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
BIN      := $(CURDIR)/bin
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# One set of flags for everything that is built, programs, tests and tools alike: Go's
# build cache has each package once, and once more with the race detector. The same sources
# give the same programs, whatever the builder's environment has. What counts beside: the C
# compiler, for programs that need cgo, and a GOEXPERIMENT that was set by go env -w.
#   grpcnotrace      gRPC without its trace pages, and so without the templates that keep the
#                    linker from leaving out unused methods: a quarter of a backend
#   netgo, osusergo  net and os/user are the same with cgo and without
TAGS := grpcnotrace,netgo,osusergo
export GOFLAGS := -buildvcs=false -trimpath -tags=$(TAGS)
export GOWORK  := off
export GOAMD64 := v1
export GOARM64 := v8.0
unexport GOEXPERIMENT GOFIPS140
LDFLAGS  := -s -w -X github.com/accelmux/accelmux/core/status.Version=$(VERSION)
# Programs that need cgo; `make build CGO_PROGRAMS=` goes without a C compiler.
CGO_PROGRAMS ?= ./cmd/accelmux-backend-nvidia
# NVML's functions are bound when they are called: a driver may lack some.
LAZY         := -extldflags=-Wl,-z,lazy
# go-nvml wraps functions that NVIDIA has deprecated, too.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
# Tools are Go modules, pinned in modfiles of their own: two, because their
# dependencies do not fit into one.
BUF      := $(GO) tool -modfile=proto/tools.mod buf
LINT     := $(GO) tool -modfile=tools.mod golangci-lint
NFPM     := $(GO) tool -modfile=deployments/tools.mod nfpm
# The release of kubelet that test-kubelet and chaos-kubelet run: of test/kubelet/manager/releases.sh.
KUBELET  ?= v1.37.1
# What buf breaking compares with: the newest release.
BASE     ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)

.PHONY: help
help: ## What each target does
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## The binaries, into bin/
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...
ifneq ($(strip $(CGO_PROGRAMS)),)
	@cc=($$($(GO) env CC)); command -v "$${cc[0]}" >/dev/null || { \
	    echo "$(CGO_PROGRAMS) needs a C compiler, and there is no $${cc[0]}: install gcc and libc6-dev (glibc-devel)," \
	        "or set CC; without it, \`make build CGO_PROGRAMS=\` builds the other programs" >&2; exit 1; }
	CGO_ENABLED=1 $(GO) build -ldflags '$(LDFLAGS) $(LAZY)' -o $(BIN)/ $(CGO_PROGRAMS)
endif
	@chmod go-w $(BIN) $(BIN)/* # whatever the umask: the agent runs no program that others may write

.PHONY: demo
demo: build ## Show what a kubelet sees: needs no cluster, no root, no hardware
	$(BIN)/accelmux demo $(ARGS)

# What CI runs for a change, in this order; a line at the end says how long each took.
CHECK := build lint test demo test-chaos test-slices test-kubelet chaos-kubelet-short test-deployments test-node-short
.PHONY: check
check: ## What a change must pass: 20 minutes on 2 cores, 40 the first time; needs root
	@$(call stages,$(CHECK))

NIGHTLY := test-race test-node chaos-seeds chaos-long chaos-kubelet test-kubelet-matrix fuzz bench
.PHONY: nightly
nightly: ## The rest: races in processes, the whole node, new seeds of chaos, all kubelets, fuzzing, benchmarks
	@$(call stages,$(NIGHTLY))

# stages runs targets one after another; each test that this machine cannot run fails.
define stages
export ACCELMUX_NO_SKIPS=1; took=; \
	for stage in $(1); do \
	    began=$$SECONDS; printf '\n### %s %s\n' "$$(date +%T)" "$$stage"; \
	    $(MAKE) --no-print-directory $$stage; \
	    took+=$$(printf '%6d s  %s' $$((SECONDS - began)) "$$stage")$$'\n'; \
	done; printf '\n%s%6d s  in all\n' "$$took" $$SECONDS
endef

# Suites of processes: one at a time, as each starts dozens.
SUITES := ./test/agent ./test/chaos ./test/conformance
# What the suites run beside the installed programs.
TEST_PROGRAMS := ./test/hostile/hostilebackend ./test/agent/testdata/bare ./test/agent/testdata/xbutil ./backends/examples/camera

.PHONY: test
test: test-unit test-suites ## Unit and property tests with the race detector; the whole agent without

.PHONY: test-unit
test-unit: ## Unit and property tests, with the race detector
	$(GO) test -race -timeout 30m $(ARGS) $$($(GO) list ./... | grep -vxF -f <(printf 'github.com/accelmux/accelmux/%s\n' $(SUITES:./%=%)))
	@# What the race detector would hide.
	$(GO) test -run '^TestAllocations$$' ./core/topology

.PHONY: test-suites
test-suites: build ## The whole agent and its backends as processes
	@mkdir -p $(BIN)/test
	cp -p $(BIN)/accelmux $(BIN)/accelmux-backend-* $(BIN)/test/
	$(GO) build -o $(BIN)/test/ $(TEST_PROGRAMS)
	@chmod go-w $(BIN)/test $(BIN)/test/*
	@# More at a time than there are cores: they mostly wait.
	ACCELMUX_TEST_BIN=$(BIN)/test $(GO) test -p 1 -parallel 4 -timeout 30m $(ARGS) $(SUITES)

.PHONY: test-race
test-race: ## The same, tests and programs with the race detector
	GOFLAGS='$(GOFLAGS) -race' GORACE=halt_on_error=1 $(GO) test -p 1 -timeout 90m $(ARGS) $(SUITES)

# Before anything is built.
.PHONY: known-kubelet
known-kubelet:
	@test/kubelet/manager/releases.sh | grep -Fx -- '$(KUBELET)' >/dev/null || { \
	    echo "no kubelet $(KUBELET): KUBELET is one of $$(test/kubelet/manager/releases.sh | xargs)" >&2; exit 1; }

.PHONY: test-slices
test-slices: ## What the inventory accepts against the API server's own validation of ResourceSlices
	cd test/slices && $(GO) test $(ARGS) ./...

.PHONY: test-kubelet
test-kubelet: known-kubelet build ## The same against the real device manager of kubelet KUBELET
	@program=$(BIN)/kubelet-$(KUBELET); set -x; test/kubelet/manager/build.sh $(KUBELET) $$program && \
	    cd test/kubelet && ACCELMUX_BIN=$(BIN) KUBELET_PROGRAM=$$program $(GO) test -count=1 -timeout 60m ./...

.PHONY: test-kubelet-matrix
test-kubelet-matrix: build ## The same with every release, or those of ARGS, into test/kubelet/README.md
	cd test/kubelet && $(GO) run ./matrix -bin $(BIN) $(ARGS)

.PHONY: test-deployments
test-deployments: build ## The chart, the manifests, kind, the systemd unit and the packages
	@# -count=1: Go keeps results by the files of a module, and these are not its own.
	cd test/deployments && ACCELMUX_BIN=$(BIN) $(GO) test -count=1 -timeout 20m ./...

.PHONY: test-node
test-node: build ## The chart and real pods on a real single-node Kubernetes: needs root
	@GO=$(GO) ACCELMUX_BIN=$(BIN) test/node/node.sh test $(ARGS)

# The chart installs, a pod gets its device, and an upgrade loses none.
.PHONY: test-node-short
test-node-short:
	$(MAKE) --no-print-directory test-node ARGS='-run "^(TestInstallationsAreAccepted|TestMockExample|TestPodsGetTheirDevices|TestUpgradeNeverDips)$$$$"'

.PHONY: manifests
manifests: build ## deployments/manifests and the chart's schema, from what they are made of
	cd test/deployments && ACCELMUX_BIN=$(BIN) $(GO) test -count=1 -run 'TestManifestsAreCurrent|TestSchemaHasTheNodeConfiguration' -update .

.PHONY: image
image: build ## A container image without a registry or docker: dist/accelmux-image.tar
	deployments/docker/archive.sh $(BIN) dist/accelmux-image.tar

.PHONY: packages
packages: build ## A deb and an rpm, into dist/
	NFPM="$(NFPM)" deployments/packages/build.sh $(BIN) dist

.PHONY: test-gpu
test-gpu: ## What we read from a real NVIDIA GPU against nvidia-smi; only reads
	@CGO_ENABLED=1 $(GO) run -ldflags='$(LAZY)' ./test/gpu $(ARGS)

.PHONY: test-gpu-binary
test-gpu-binary: ## The same as one file, bin/accelmux-test-gpu, for a machine without Go
	CGO_ENABLED=1 $(GO) build -ldflags '-s -w $(LAZY)' -o $(BIN)/accelmux-test-gpu ./test/gpu

# The seed of CI, and all that once failed.
SEEDS = $(shell sed 's/\#.*//' test/chaos/seeds)

.PHONY: test-chaos
test-chaos: chaos-programs ## The first 150 steps of each seed of test/chaos/seeds; after 150 seconds 75 are enough
	for seed in $(SEEDS); do $(CHAOS) -seed $$seed -steps 150 -limit 150s -least 75 $(ARGS); done

.PHONY: chaos-seeds
chaos-seeds: chaos-programs ## 300 steps of each seed of test/chaos/seeds
	for seed in $(SEEDS); do $(CHAOS) -seed $$seed -steps 300 $(ARGS); done

CHAOS := $(BIN)/chaos/chaos -bin $(BIN)
.PHONY: chaos-programs
chaos-programs: build
	@# Built, not run by go: a process of its own at the end of signals.
	@mkdir -p $(BIN)/chaos
	$(GO) build -tags $(TAGS),chaos -o $(BIN)/chaos/ ./cmd/accelmux
	$(GO) build -o $(BIN)/chaos/chaos ./test/chaos

.PHONY: chaos
chaos: chaos-programs ## A whole node under faults drawn at random: SEED, STEPS, or REPLAY a list or @FILE
	$(CHAOS) $(if $(SEED),-seed $(SEED)) $(if $(STEPS),-steps $(STEPS)) $(if $(REPLAY),-replay '$(REPLAY)') $(ARGS)

.PHONY: chaos-long
chaos-long: # the seed is of the clock, and printed
	$(MAKE) --no-print-directory chaos STEPS=10000

.PHONY: chaos-kubelet
chaos-kubelet: known-kubelet ## The same with the real device manager of kubelet KUBELET; 500 steps
	@mkdir -p $(BIN)
	test/kubelet/manager/build.sh $(KUBELET) $(BIN)/kubelet-$(KUBELET)
	$(MAKE) --no-print-directory chaos STEPS=$(or $(STEPS),500) ARGS='-kubelet $(BIN)/kubelet-$(KUBELET) $(ARGS)'

.PHONY: chaos-kubelet-short
chaos-kubelet-short: # a seed that is always the same
	$(MAKE) --no-print-directory chaos-kubelet SEED=1 STEPS=100 ARGS='-limit 3m -least 50'

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (default 20s) each
	test/fuzz.sh $(or $(FUZZTIME),20s)

.PHONY: bench
bench: build ## Speed, memory and faults of the agent, into test/bench/results.json
	$(GO) run ./test/bench -bin $(BIN) $(ARGS)

.PHONY: bench-topology
bench-topology: ## Which devices a container gets: percentiles
	$(GO) test ./core/topology -run '^$$' -bench '$(or $(BENCH),Choose|Prepare)' -benchtime 500ms $(ARGS)

.PHONY: bench-nvidia
bench-nvidia: build ## First inventory, faults to kubelet, memory and CPU of the NVIDIA backend
	$(GO) run ./test/bench/nvidia -bin $(BIN) $(ARGS)

.PHONY: bench-fpga
bench-fpga: build ## Programming of cards by the FPGA backend: time and memory
	$(GO) run ./test/bench/fpga -bin $(BIN) $(ARGS)

.PHONY: bench-fleet
bench-fleet: ## What 1,000 agents cost a real API server
	programs=$$(test/node/programs/build.sh) && PATH=$$programs:$$PATH $(GO) run ./test/bench/fleet $(ARGS)

.PHONY: lint
lint: ## go vet, golangci-lint, buf lint, buf breaking, generated code is current
	$(GO) vet ./...
	$(GO) vet -tags $(TAGS),chaos ./cmd/accelmux
	$(LINT) run --allow-parallel-runners ./...
	@lint=$$($(GO) tool -modfile=tools.mod -n golangci-lint); for module in test/kubelet test/slices test/deployments test/node; do \
	    echo "$$module: go vet, golangci-lint"; \
	    (cd $$module && $(GO) vet ./... && "$$lint" run --allow-parallel-runners ./...); \
	done
	$(BUF) lint
	@if [[ -z "$(BASE)" ]]; then \
	    echo "buf breaking: nothing is released yet"; \
	else \
	    echo "$(BUF) breaking --against .git#ref=$(BASE)"; \
	    $(BUF) breaking --against '.git#ref=$(BASE)'; \
	fi
	$(BUF) format -d --exit-code
	test/generated.sh

.PHONY: format
format: ## gofmt and goimports on everything
	$(LINT) fmt ./...
	$(BUF) format -w

.PHONY: generate
generate: ## The contract's Go code from backend.proto
	$(BUF) generate

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) dist
