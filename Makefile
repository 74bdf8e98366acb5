# accelmux: `make help` lists the targets.
# A fresh machine needs Go, make and a C compiler (for the race detector, and for
# the NVIDIA backend).

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

GO       ?= go
BIN      := $(CURDIR)/bin
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Programs, tests and tools are built with the same flags, so that Go's build cache has each
# package once, and once more with the race detector. The same sources give the same programs,
# whatever the builder's environment; only the C compiler, for programs that need cgo, and a
# GOEXPERIMENT that was set by go env -w make a difference.
#   grpcnotrace      gRPC without its trace pages. Their templates keep the linker from
#                    removing unused methods, a quarter of a backend's size
#   netgo, osusergo  net and os/user are the same with and without cgo
# A -tags of a command replaces that of GOFLAGS, and then nearly every package is compiled again:
# what needs a tag of its own adds it to GO_TAGS.
export GO_TAGS := grpcnotrace,netgo,osusergo
export GOFLAGS := -buildvcs=false -trimpath -tags=$(GO_TAGS)
export GOWORK  := off
export GOAMD64 := v1
export GOARM64 := v8.0
unexport GOEXPERIMENT GOFIPS140
# The Go release that go.mod pins, whatever is installed: go fetches it as a module.
export GOTOOLCHAIN := $(shell sed -n 's/^toolchain //p' go.mod)
LDFLAGS  := -s -w -X github.com/accelmux/accelmux/core/status.Version=$(VERSION)
# Programs that need cgo; `make build CGO_PROGRAMS=` leaves them out and needs no C compiler.
CGO_PROGRAMS ?= ./cmd/accelmux-backend-nvidia
# NVML's functions are bound when they are first called, as a driver may lack some.
LAZY         := -extldflags=-Wl,-z,lazy
# go-nvml also wraps functions that NVIDIA has deprecated.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
# Tools are Go modules, pinned in modfiles of their own. There are several, because their
# dependencies conflict.
BUF      := $(GO) tool -modfile=proto/tools.mod buf
# Its analyzers include those of go vet.
LINT     := $(GO) tool -modfile=tools.mod golangci-lint
NFPM     := $(GO) tool -modfile=deployments/tools.mod nfpm
# The release of kubelet for test-kubelet and chaos-kubelet, one that
# test/kubelet/manager/releases.sh lists.
KUBELET  ?= v1.37.1
# The tag that buf breaking compares with: the newest release.
BASE     ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the programs into bin/
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...
	cd cmd/kubectl-accelmux && CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/ .
ifneq ($(strip $(CGO_PROGRAMS)),)
	@cc=($$($(GO) env CC)); command -v "$${cc[0]}" >/dev/null || { \
	    echo "$(CGO_PROGRAMS) needs a C compiler, and there is no $${cc[0]}: install gcc and libc6-dev (glibc-devel)," \
	        "or set CC; without it, \`make build CGO_PROGRAMS=\` builds the other programs" >&2; exit 1; }
	CGO_ENABLED=1 $(GO) build -ldflags '$(LDFLAGS) $(LAZY)' -o $(BIN)/ $(CGO_PROGRAMS)
endif
	backends/manifests.sh $(BIN)
	@chmod go-w $(BIN) $(BIN)/* # whatever the umask: the agent runs no program that others may write

# What accelmux demo runs: all programs would take minutes more, and one needs a C compiler.
DEMO_PROGRAMS := ./cmd/accelmux ./cmd/accelmux-backend-mock

.PHONY: demo
demo: ## Run accelmux demo: shows what kubelet gets; needs no cluster, no root, no hardware, no C compiler
	@mkdir -p $(BIN)
	@echo "demo: looking for the Go modules that it needs; those that are not on this machine are downloaded"
	@export CGO_ENABLED=0; all=$$($(GO) list -deps $(DEMO_PROGRAMS) | wc -l); \
	    echo "demo: building $(DEMO_PROGRAMS); of their $$all packages those are compiled that are not in Go's cache"; \
	    $(GO) build -v -ldflags '$(LDFLAGS)' -o $(BIN)/ $(DEMO_PROGRAMS) 2>&1 | { compiled=0; while IFS= read -r line; do \
	        if [[ $$line == *[!A-Za-z0-9./_-]* ]]; then printf '%s\n' "$$line" >&2; continue; fi; \
	        if ((++compiled % 25 == 0)); then echo "demo: $$compiled of at most $$all packages are compiled"; fi; \
	        if [[ ' $(DEMO_PROGRAMS) ' == *"/$${line##*/} "* ]]; then echo "demo: $${line##*/} is compiled, and linked next"; fi; \
	    done; }
	@backends/manifests.sh $(BIN)
	@for program in $(DEMO_PROGRAMS); do chmod go-w $(BIN) $(BIN)/$${program##*/}; done # whatever the umask, as in build
	$(BIN)/accelmux demo $(ARGS)

# What CI runs for a change: test, then the stages that mostly compile beside those that mostly wait. Only one of the two
# uses bin/.
CHECK_COMPILES := lint test-race
CHECK_WAITS    := demo test-chaos test-slices test-kubelet chaos-kubelet-short test-deployments test-kernel-short test-node-short
.PHONY: check
check: ## All that a change must pass; needs root
	@$(call timed,$(MAKE) stages STAGES=test && $(MAKE) -j 2 compiles waits)

.PHONY: compiles waits
compiles: STAGES = $(CHECK_COMPILES)
waits:    STAGES = $(CHECK_WAITS)
compiles waits:
	@$(MAKE) stages STAGES='$(STAGES)'

NIGHTLY := test-race-suites test-node test-kernel chaos-seeds chaos-long chaos-kubelet test-kubelet-matrix fuzz bench reproducible vulnerabilities
.PHONY: nightly
nightly: ## All other tests: races in processes, the whole node, new chaos seeds, all kubelets, fuzzing, benchmarks
	@$(call timed,$(MAKE) stages STAGES='$(NIGHTLY)')

# stages runs STAGES one after another, with its name before each line of a stage. A test that this machine cannot
# run fails.
.PHONY: stages
stages:
	@export ACCELMUX_NO_SKIPS=1; for stage in $(STAGES); do \
	    began=$$SECONDS; status=; echo "### $$(date +%T) $$stage"; \
	    $(MAKE) $$stage 2>&1 | sed -u "s/^/$$stage: /" || status=', failed'; \
	    printf '%6d s  %s%s\n' $$((SECONDS - began)) $$stage "$$status" >>$(TIMES); \
	    [[ -z $$status ]]; \
	done

# timed runs a command, and prints how long it took and each of its stages.
TIMES = $(BIN)/stages
define timed
mkdir -p $(BIN); rm -f $(TIMES); status=0; \
	{ $(1); } || status=$$?; \
	printf '\n%s\n%6d s  in all\n' "$$(cat $(TIMES))" $$SECONDS; exit $$status
endef

# Suites that start dozens of processes each.
SUITES := ./test/agent ./test/chaos ./test/conformance
# Programs that the suites run besides the installed ones.
TEST_PROGRAMS := ./test/hostile/hostilebackend ./test/hostile/intruderbackend ./backends/examples/camera

.PHONY: test
test: test-unit test-suites ## Unit and property tests, and the suites of processes

# Without vet, whose analyzers lint has; and without test/kernel, which needs its machine.
UNITS = $$($(GO) list ./... | grep -vxF -f <(printf 'github.com/accelmux/accelmux/%s\n' $(SUITES:./%=%) test/kernel))
.PHONY: test-unit
test-unit: ## Unit and property tests
	$(GO) test -vet=off -timeout 30m $(ARGS) $(UNITS)
	cd cmd/kubectl-accelmux && $(GO) test -vet=off $(ARGS) ./...

# A stage of its own, as the detector compiles everything again.
.PHONY: test-race
test-race: ## test-unit with the race detector
	@$(MAKE) test-unit ARGS='-race $(ARGS)'

.PHONY: test-suites
test-suites: build ## Suites of processes: the whole agent and its backends, chaos's own tests, conformance
	@mkdir -p $(BIN)/test
	cp -rp $(BIN)/accelmux $(BIN)/accelmux-backend-* $(BIN)/test/
	$(GO) build -o $(BIN)/test/ $(TEST_PROGRAMS)
	for source in $(TEST_PROGRAMS); do [[ ! -f $$source/manifest.yaml ]] || backends/manifests.sh $$source $(BIN)/test/$${source##*/}; done
	@chmod go-w $(BIN)/test $(BIN)/test/*
	@# All suites at a time and four tests of each, even with fewer cores: they mostly wait.
	ACCELMUX_TEST_BIN=$(BIN)/test $(GO) test -vet=off -p 3 -parallel 4 -timeout 30m $(ARGS) $(SUITES)

.PHONY: test-race-suites
test-race-suites: ## test-suites with the race detector, in tests and programs
	GOFLAGS='$(GOFLAGS) -race' GORACE=halt_on_error=1 $(GO) test -vet=off -p 1 -timeout 90m $(ARGS) $(SUITES)

# Fails for an unknown release before anything is built.
.PHONY: known-kubelet
known-kubelet:
	@test/kubelet/manager/releases.sh | grep -Fx -- '$(KUBELET)' >/dev/null || { \
	    echo "no kubelet $(KUBELET): KUBELET is one of $$(test/kubelet/manager/releases.sh | xargs)" >&2; exit 1; }

.PHONY: test-slices
test-slices: ## Verify that the API server's validation of ResourceSlices accepts what the inventory accepts
	cd test/slices && $(GO) test -vet=off $(ARGS) ./...

.PHONY: test-kubelet
test-kubelet: known-kubelet build ## Agent and backends with the real device manager of kubelet KUBELET
	@program=$(BIN)/kubelet-$(KUBELET); set -x; test/kubelet/manager/build.sh $(KUBELET) $$program && \
	    cd test/kubelet && ACCELMUX_BIN=$(BIN) KUBELET_PROGRAM=$$program $(GO) test -vet=off -count=1 -timeout 60m ./...

.PHONY: test-kubelet-matrix
test-kubelet-matrix: build ## test-kubelet with every release, or those in ARGS
	failed=; for release in $(or $(ARGS),$$(test/kubelet/manager/releases.sh)); do \
	    ACCELMUX_NO_SKIPS=1 $(MAKE) test-kubelet KUBELET=$$release || failed+=" $$release"; \
	done; [[ -z $$failed ]] || { echo "failed with:$$failed" >&2; exit 1; }

.PHONY: test-deployments
test-deployments: sbom ## The chart, the manifests, kind, the systemd unit and the packages
	@# -count=1: Go's cache of results does not consider files outside the module, which these tests read.
	cd test/deployments && ACCELMUX_BIN=$(BIN) $(GO) test -vet=off -count=1 -timeout 20m ./...

.PHONY: reproducible
reproducible: ## Build and pack everything twice, in two directories and each with an empty cache, and compare
	cd test/deployments && ACCELMUX_EMPTY_CACHES=1 $(GO) test -count=1 -timeout 60m -run TestBuildIsReproducible .

.PHONY: test-node
test-node: build ## The chart and real pods on a real single-node Kubernetes: needs root
	@GO=$(GO) ACCELMUX_BIN=$(BIN) test/node/node.sh test $(ARGS)

# Installation of the chart, a backend in a container of its own, a pod that gets its device by either API, an upgrade
# that loses no device.
.PHONY: test-node-short
test-node-short:
	$(MAKE) test-node ARGS='-run "^(TestInstallationsAreAccepted|TestMockExample|TestBackendContainer|TestPodsGetTheirDevices|TestPodWithClaimGetsItsDevices|TestUpgradeNeverDips)$$$$"'

.PHONY: test-kernel
test-kernel: sbom ## Described devices on a real Linux kernel in QEMU: needs root
	@GO=$(GO) BIN=$(BIN) NFPM="$(NFPM)" test/kernel/kernel.sh test $(ARGS)

# A device that comes and goes and one that a container's open brings: two minutes, and as much for the first image.
.PHONY: test-kernel-short
test-kernel-short:
	$(MAKE) test-kernel ARGS='-run "^(TestSerialTwinsOverSwappedNames|TestStaticNodeLoadsItsModule)$$$$"'

.PHONY: manifests
manifests: build ## Generate deployments/manifests, the schema of node configurations, and the chart's
	$(GO) test -count=1 -run TestSchemaIsCurrent ./test/schema -args -update
	cd test/deployments && ACCELMUX_BIN=$(BIN) $(GO) test -count=1 -run 'TestManifestsAreCurrent|TestSchemaHasTheNodeConfiguration' -update .

# The licences and notices of third parties, which packages and images have to come with.
NOTICES := $(BIN)/THIRD_PARTY_NOTICES
$(NOTICES): go.mod cmd/kubectl-accelmux/go.mod deployments/supply.mod deployments/supply.sh
	deployments/supply.sh notices $@

.PHONY: sbom
sbom: build $(NOTICES) ## Write the programs' SBOMs (CycloneDX), and third parties' licences, into bin/
	VERSION=$(VERSION) deployments/supply.sh sbom $(BIN) $(BIN)/sbom

.PHONY: licenses
licenses: ## Check the licences of all dependencies, also of tests and tools
	deployments/supply.sh licenses

.PHONY: vulnerabilities
vulnerabilities: ## Check for known vulnerabilities that the programs call; says so if it has no data
	deployments/supply.sh vulnerabilities

.PHONY: image
image: build $(NOTICES) ## Build a container image, without docker or a registry: dist/accelmux-image.tar
	deployments/docker/archive.sh $(BIN) dist/accelmux-image.tar

.PHONY: packages
packages: sbom ## Build a deb and an rpm into dist/
	NFPM="$(NFPM)" deployments/packages/build.sh $(BIN) dist

.PHONY: test-gpu
test-gpu: ## Compare what we read from a real NVIDIA GPU with nvidia-smi; changes nothing
	@CGO_ENABLED=1 $(GO) run -ldflags='$(LAZY)' ./test/gpu $(ARGS)

.PHONY: test-gpu-binary
test-gpu-binary: ## Build test-gpu as bin/accelmux-test-gpu, for a machine without Go
	CGO_ENABLED=1 $(GO) build -ldflags '-s -w $(LAZY)' -o $(BIN)/accelmux-test-gpu ./test/gpu

# The seed 1, and seeds that failed once.
SEEDS = $(shell sed 's/\#.*//' test/chaos/seeds)

.PHONY: test-chaos
test-chaos: chaos-programs ## 150 steps of each seed in test/chaos/seeds; after 150 seconds 75 steps are enough
	for seed in $(SEEDS); do $(CHAOS) -seed $$seed -steps 150 -limit 150s -least 75 $(ARGS); done

.PHONY: chaos-seeds
chaos-seeds: chaos-programs ## 300 steps of each seed in test/chaos/seeds
	for seed in $(SEEDS); do $(CHAOS) -seed $$seed -steps 300 $(ARGS); done

CHAOS := $(BIN)/chaos/chaos -bin $(BIN)
.PHONY: chaos-programs
chaos-programs: build
	@# Built, and not started by go run, so that signals reach the process itself.
	@mkdir -p $(BIN)/chaos
	$(GO) build -tags $(GO_TAGS),chaos -o $(BIN)/chaos/ ./cmd/accelmux
	$(GO) build -o $(BIN)/chaos/chaos ./test/chaos

.PHONY: chaos
chaos: chaos-programs ## A whole node with random faults: SEED and STEPS, or REPLAY with a list or @FILE
	$(CHAOS) $(if $(SEED),-seed $(SEED)) $(if $(STEPS),-steps $(STEPS)) $(if $(REPLAY),-replay '$(REPLAY)') $(ARGS)

.PHONY: chaos-long
chaos-long: # the seed is taken from the clock, and printed
	$(MAKE) chaos STEPS=10000

.PHONY: chaos-kubelet
chaos-kubelet: known-kubelet ## chaos with the real device and DRA managers of kubelet KUBELET: STEPS (default 500)
	@mkdir -p $(BIN)
	test/kubelet/manager/build.sh $(KUBELET) $(BIN)/kubelet-$(KUBELET)
	$(MAKE) chaos STEPS=$(or $(STEPS),500) ARGS='-kubelet $(BIN)/kubelet-$(KUBELET) $(ARGS)'

.PHONY: chaos-kubelet-short
chaos-kubelet-short: # always with the same seed
	$(MAKE) chaos-kubelet SEED=1 STEPS=100 ARGS='-limit 3m -least 50'

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (default 20s)
	test/fuzz.sh $(or $(FUZZTIME),20s)

.PHONY: bench
bench: build ## Measure the agent: time, CPU, memory; writes the tables of test/bench/README.md
	$(GO) run ./test/bench -bin $(BIN) $(ARGS)

.PHONY: bench-topology
bench-topology: ## Measure the choice of devices: percentiles
	$(GO) test ./core/topology -run '^$$' -bench '$(or $(BENCH),Choose|Prepare)' -benchtime 500ms $(ARGS)

.PHONY: bench-fleet
bench-fleet: ## Measure the load of 1,000 agents on a real API server
	programs=$$(test/node/programs/build.sh) && PATH=$$programs:$$PATH $(GO) run ./test/bench/fleet $(ARGS)

.PHONY: lint
lint: ## Run golangci-lint, buf lint, buf breaking; check generated code, modules, and the licences of dependencies
	$(LINT) run --allow-parallel-runners ./...
	$(LINT) run --allow-parallel-runners --build-tags $(GO_TAGS),chaos ./cmd/accelmux
	@lint=$$($(GO) tool -modfile=tools.mod -n golangci-lint); for module in cmd/kubectl-accelmux test/kubelet test/slices test/deployments test/node; do \
	    echo "$$module: golangci-lint"; \
	    (cd $$module && "$$lint" run --allow-parallel-runners ./...); \
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
	test/modules.sh
	deployments/supply.sh licenses

.PHONY: format
format: ## Format Go (gofmt, goimports) and proto files
	$(LINT) fmt ./...
	$(BUF) format -w

.PHONY: generate
generate: ## Generate the contract's Go code from backend.proto
	$(BUF) generate

.PHONY: clean
clean: ## Remove bin/ and dist/
	rm -rf $(BIN) dist
