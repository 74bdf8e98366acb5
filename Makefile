# accelmux: `make help` says what there is.
# A fresh machine needs Go, make and a C compiler (for the race detector, and for
# the NVIDIA backend).

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
BIN      := $(CURDIR)/bin
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# gRPC without its trace pages, and so without the templates that keep the linker
# from leaving out what nobody calls: a quarter of a backend.
TAGS     := grpcnotrace
# The same sources give the same programs, whatever the builder's environment has of GOFLAGS
# and the like. What counts beside: the C compiler, for programs that need cgo, and a
# GOEXPERIMENT that was set by go env -w.
GO_BUILD := env -u GOEXPERIMENT -u GOFIPS140 GOFLAGS=-buildvcs=false GOWORK=off GOAMD64=v1 GOARM64=v8.0 $(GO) build -trimpath -tags $(TAGS)
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
	CGO_ENABLED=0 $(GO_BUILD) -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...
ifneq ($(strip $(CGO_PROGRAMS)),)
	@cc=($$($(GO) env CC)); command -v "$${cc[0]}" >/dev/null || { \
	    echo "$(CGO_PROGRAMS) needs a C compiler, and there is no $${cc[0]}: install gcc and libc6-dev (glibc-devel)," \
	        "or set CC; without it, \`make build CGO_PROGRAMS=\` builds the other programs" >&2; exit 1; }
	CGO_ENABLED=1 $(GO_BUILD) -ldflags '$(LDFLAGS) $(LAZY)' -o $(BIN)/ $(CGO_PROGRAMS)
endif
	@chmod go-w $(BIN) $(BIN)/* # whatever the umask: the agent runs no program that others may write

.PHONY: demo
demo: build ## Show what a kubelet sees: needs no cluster, no root, no hardware
	$(BIN)/accelmux demo $(ARGS)

.PHONY: test
test: ## Unit, property and end-to-end tests, with the race detector
	$(GO) test -race -timeout 30m $(ARGS) ./...
	@# What the race detector would hide.
	$(GO) test -run '^TestAllocations$$' ./core/topology

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
	CGO_ENABLED=1 $(GO) build -trimpath -ldflags '-s -w $(LAZY)' -o $(BIN)/accelmux-test-gpu ./test/gpu

.PHONY: test-chaos
test-chaos: ## 300 steps of chaos that are always the same; after 5 minutes 150 are enough
	$(MAKE) --no-print-directory chaos SEED=$(or $(SEED),1) STEPS=300 ARGS='-limit 5m -least 150 $(ARGS)'

.PHONY: chaos
chaos: build ## A whole node under faults drawn at random: SEED, STEPS, or REPLAY a list or @FILE
	@# Built, not run by go: a process of its own at the end of signals.
	@mkdir -p $(BIN)/chaos
	$(GO) build -tags $(TAGS),chaos -o $(BIN)/chaos/ ./cmd/accelmux
	$(GO) build -o $(BIN)/chaos/chaos ./test/chaos
	$(BIN)/chaos/chaos -bin $(BIN) $(if $(SEED),-seed $(SEED)) $(if $(STEPS),-steps $(STEPS)) $(if $(REPLAY),-replay '$(REPLAY)') $(ARGS)

.PHONY: chaos-kubelet
chaos-kubelet: known-kubelet ## The same with the real device manager of kubelet KUBELET; 500 steps
	@mkdir -p $(BIN)
	test/kubelet/manager/build.sh $(KUBELET) $(BIN)/kubelet-$(KUBELET)
	$(MAKE) --no-print-directory chaos STEPS=$(or $(STEPS),500) ARGS='-kubelet $(BIN)/kubelet-$(KUBELET) $(ARGS)'

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
	$(GO) vet -tags chaos ./cmd/accelmux
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
