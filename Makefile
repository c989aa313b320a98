# Two commands matter: `make demo` and `make test`. `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Where Go's own archive installs it, for machines whose PATH does not say so.
export PATH := $(PATH):/usr/local/go/bin

# Go stamps a build with the commit it came from, and fails where git refuses to say
# (no repository, or one that another user owns).
export GOFLAGS := $(GOFLAGS) $(shell git rev-parse --git-dir >/dev/null 2>&1 || echo -buildvcs=false)

# Platforms the tree must at least type-check on.
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64

# PKG=./bth/... narrows a target to some packages.
PKG ?=
FUZZTIME ?= 60s
BENCH ?= .
RACE ?=

# packages sets the shell variable of that name. Without PKG it leaves out what
# wants the machine to itself.
packages = packages="$(PKG)"; [[ -n $$packages ]] || packages=$$(go list ./... | grep -v '/test/netns$$')

# Two ends that move data in real time need both cores of a small machine, so
# packages are built side by side and tested one after the other.
one_at_a_time = go run ./script/gotest -p 1

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## build, and move verified bytes between two devices in one process
	@script/install build
	@$(MAKE) --no-print-directory build
	@bin/rocectl demo

.PHONY: test
test: ## everything, with what it needs installed: at most 20 minutes on 2 cores
	@script/test

.PHONY: build
build: ## bin/rocectl
	go build -o bin/ ./cmd/rocectl

.PHONY: check
check: tidy vet lint unit ## what needs no privilege, before a commit

.PHONY: tidy
tidy: ## is every file formatted, is go.mod exact?
	@unformatted=$$(gofmt -l .); [[ -z $$unformatted ]] || { echo "not formatted by gofmt: $$unformatted"; exit 1; }
	go mod tidy -diff

.PHONY: vet
vet: ## go vet for every platform
	@for platform in $(PLATFORMS); do \
		echo "go vet for $$platform"; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} go vet ./...; \
	done

.PHONY: lint
lint: ## golangci-lint (built from source the first time) and shellcheck
	script/golangci-lint run ./...
	git grep -lE '^#!.*\b(ba)?sh\b' -- ':!*.md' | xargs -r shellcheck --severity=warning

.PHONY: unit
unit: ## go test; PKG=./bth/... for a part
	@$(packages); $(one_at_a_time) $$packages

.PHONY: race
race: ## go test -race
	@$(packages); go build -race $$(go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' $$packages); $(one_at_a_time) -race $$packages

.PHONY: netns
netns: ## tests over veth pairs in network namespaces; RACE=-race for the race detector; root
	@go run ./script/gotest -count=1 $(RACE) ./test/netns

.PHONY: emulated
emulated: ## of those tests, the ones that want what some kernels lack, in the emulated machine
	@go run ./script/gotest -count=1 -exec '$(CURDIR)/test/rxe/vm --timeout 200 --' -run VLAN ./test/netns

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (60s)
	@$(packages); script/fuzz $(FUZZTIME) $$packages

.PHONY: soak
soak: ## what takes long: AF_XDP rings with 10^7 descriptors under the race detector
	go test -race -count=1 ./xdp -run Rings -xdp.descriptors 10000000

.PHONY: bench
bench: ## benchmarks with allocations; BENCH=regexp, PKG=./bth
	@$(packages); go test -run '^$$' -bench '$(BENCH)' -benchmem $$packages

.PHONY: test-rxe
test-rxe: ## against Linux Soft-RoCE; FULL=1 for every cell, KERNEL=6.12 or sid, RUN=regexp
	@test/rxe/run

.PHONY: clean
clean: ## remove what was built; caches stay
	rm -rf bin test/rxe/out
