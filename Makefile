# SPDX-License-Identifier: Apache-2.0
# Only Go and make are needed; with a C compiler the tests also run under the race
# detector. docs/HACKING.md has more.

GO      ?= go
WORKERS ?= 2
SCENARIO ?= examples/shop.yml

# A watchdog for one package's tests, for machines that are busy with other things too.
TIMEOUT ?= 30m

# The version is what git says, where there is git. -buildvcs=false, because the Go
# tool refuses to build in a checkout that belongs to somebody else otherwise.
VERSION := $(shell git describe --always --dirty --tags 2>/dev/null || echo unknown)
# Without cgo the programs need no C library, wherever they were built. The tag leaves out what urfave/cli could write
# manual pages with: every worker would start with its tables, 200 kB each.
BUILD    = CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -tags urfave_cli_no_docs -ldflags "-X github.com/disco-sim/disco/app.version=$(VERSION)"

# Modules of their own in this tree, which ./... doesn't reach: what only they need stays out of go.mod.
MODULES = perf/profile examples/mymodel cmd/disco-server
# The tests build disco-server with the same flags: etcd is compiled once.
IN_MODULE = CGO_ENABLED=0 $(GO)

.DEFAULT_GOAL := help

# One after the other: the tests measure times.
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## put bin/disco-run and the programs beside it in place
	@mkdir -p bin
	$(BUILD) -o bin/ ./cmd/disco-run ./cmd/disco-bench ./cmd/disco-group ./cmd/disco-graph ./cmd/disco-view
	CGO_ENABLED=0 $(GO) -C cmd/disco-server build -buildvcs=false -trimpath \
		-ldflags "-s -w -X main.version=$(VERSION)" -o $(CURDIR)/bin/ .

.PHONY: man
man: build ## write the manual pages of disco-run, one for each of its commands, to man/
	@mkdir -p man
	bin/disco-run man >man/disco-run.1
	@for c in $$(bin/disco-run __complete man ''); do bin/disco-run man $$c >man/disco-run-$$c.1 || exit 1; done

.PHONY: run
run: build ## run the shop over two workers (SCENARIO=file WORKERS=n for others)
	bin/disco-run run $(SCENARIO) --workers $(WORKERS)

# All of the gate builds in one way, and Go compiles each package once for it: without cgo like the programs, and without
# the profile of cmd/disco-run, for which the 254 packages under it would be compiled once more in each build.
GATE = format tidy vet policy staticcheck vulncheck arm64 unit checked race
$(GATE) simulate: export GOFLAGS := $(GOFLAGS) -trimpath -pgo=off
$(GATE) simulate: export CGO_ENABLED := 0

# What costs little comes first, so that a slip is found soon.
.PHONY: test
test: format tidy vet policy staticcheck vulncheck arm64 unit checked race ## the whole gate: everything below

.PHONY: format
format: ## all Go files are formatted
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted (gofmt -w mends them):"; echo "$$files"; exit 1; fi
	@echo "ok  	format"

.PHONY: tidy
tidy: ## go mod tidy changes nothing, in any module
	@GO=$(GO) sh internal/ci/tidy.sh . $(MODULES) internal/tools internal/tools/versitygw

.PHONY: vet
vet: ## go vet, of both builds and of the modules inside this one
	$(GO) vet ./...
	@# All other packages have the same code in both builds.
	packages=$$(GO=$(GO) sh internal/ci/tagged.sh invariants) && $(GO) vet -tags invariants $$packages
	for m in $(MODULES); do $(IN_MODULE) -C $$m vet ./... && \
		$(IN_MODULE) -C $$m list -export ./... >/dev/null || exit 1; done
	@# Tests build it with the same flags, and skip, saying so, where it can't be had.
	-$(IN_MODULE) -C internal/tools/versitygw list -export github.com/versity/versitygw/cmd/versitygw >/dev/null

# The tools' versions stand in a module of their own, so that the root's go.mod doesn't have them.
TOOL = $(GO) tool -modfile=internal/tools/go.mod

.PHONY: staticcheck
staticcheck: ## staticcheck, of both builds and of the modules inside this one
	$(TOOL) staticcheck ./...
	@# All other packages have the same code in both builds.
	packages=$$(GO=$(GO) sh internal/ci/tagged.sh invariants) && $(TOOL) staticcheck -tags invariants $$packages
	@check=$$($(TOOL) -n staticcheck) && for m in $(MODULES); do (cd $$m && CGO_ENABLED=0 $$check ./...) || exit 1; done

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what is called; skipped where their list can't be reached
	@GO=$(GO) sh internal/ci/vulncheck.sh

.PHONY: policy
policy: ## the house rules: who imports whom, sizes, comments, no leftovers
	@# The flags of make unit, which has its result then.
	$(GO) test -vet=off -timeout $(TIMEOUT) ./internal/policy

.PHONY: arm64
arm64: ## build and vet for arm64
	@# go build links all of 22 programs each time, and throws them away. Those of cmd have all there is in assembler.
	GOARCH=arm64 $(GO) list -export ./... >/dev/null
	GOARCH=arm64 $(GO) build -buildvcs=false ./cmd/...
	GOARCH=arm64 $(GO) vet ./...

.PHONY: unit
unit: ## the tests of the plain build
	GO=$(GO) sh internal/ci/test.sh -timeout $(TIMEOUT)

# The checked build asserts its invariants as it runs. -short leaves out the longest
# runs, which are there for their statistics. The tests of packages without invariants are those of the plain build.
.PHONY: checked
checked: ## the tests of the checked build
	@packages=$$(GO=$(GO) sh internal/ci/tagged.sh invariants) && \
		PACKAGES=$$packages GO=$(GO) sh internal/ci/test.sh -timeout $(TIMEOUT) -short -tags invariants

# docs/simulation-testing.md. Failures print the seed that replays them. The gate runs some thousand of the same seeds,
# with the other tests of internal/worker.
SCHEDULES ?= 8000
SEED      ?= 1
.PHONY: simulate
simulate: ## many more simulated runs than the gate has, of both builds (SCHEDULES=n SEED=n for others)
	$(GO) test -timeout 0 -run 'TestSimulation(Far|Legs|Moves)?$$' ./internal/worker -schedules $(SCHEDULES) -seed $(SEED)
	$(GO) test -timeout 0 -tags invariants -run 'TestSimulation(Far|Legs|Moves)?$$' ./internal/worker \
		-schedules $(SCHEDULES) -seed $(SEED)

# The race detector needs cgo, and so a C compiler. It looks for wrong orders and not
# for wrong results, so -short again. A process under it sleeps for a second when it exits,
# which the tests of kills would take for a slow end: atexit_sleep_ms=0.
# Left out is what has no goroutines of its own (internal/ci/raced.sh), and what takes minutes although nothing in it is
# concurrent but what it is tested with: models, whose tests call one handler after the other (internal/launch,
# internal/worker and cmd/disco-run run all kinds with workers that are goroutines), the examples made of them, the
# programs that measure, the house rules, and distributions, which have one lock around a list.
NOT_RACED = /disco/(examples|model|perf|internal/policy|sim/dist)(/|$$)
.PHONY: race
race: ## short tests under the race detector, where there is a C compiler
	@cc=$$($(GO) env CC); \
	if command -v $${cc%% *} >/dev/null 2>&1; then \
		packages=$$(GO=$(GO) sh internal/ci/raced.sh '$(NOT_RACED)') && GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 \
		PACKAGES=$$packages GO=$(GO) sh internal/ci/test.sh -timeout $(TIMEOUT) -race -short; \
	else \
		echo "SKIPPED: the tests under the race detector, because there is no C compiler ($$cc)"; \
	fi

# FUZZTIME=10s for a short look; internal/ci/fuzz.sh has more. Its own test comes first: a
# check that can't fail is none.
.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (2m) and count its inputs
	$(GO) test ./internal/ci
	GO=$(GO) sh internal/ci/fuzz.sh

.PHONY: test-arm64
test-arm64: ## tests of the memory packages as arm64 programs, where qemu-user is installed
	GO=$(GO) sh internal/ci/test-arm64.sh

.PHONY: bench
bench: build ## measure the engine (disco-bench --help has more)
	bin/disco-bench all

DEMO ?=

.PHONY: demo-machines
demo-machines: build ## a run over three machines, and one of its cables pulled out, on this computer (DEMO=flags)
	$(BUILD) -o bin/disco-demo ./internal/demo
	bin/disco-demo -program bin/disco-run $(DEMO)

.PHONY: perf-store
perf-store: ## measure the metadata store beside bare clients, on real servers (STORE_FLAGS="-engines zk3 -rows put,get")
	@mkdir -p bin
	$(BUILD) -o bin/disco-perf-store ./perf/store
	bin/disco-perf-store $(STORE_FLAGS)

.PHONY: perf-graph
perf-graph: ## measure graphs in memory, databases and files beside bare loops (GRAPH_FLAGS="-engines sqlite -rounds 7")
	@mkdir -p bin
	$(BUILD) -o bin/disco-perf-graph ./perf/graph
	bin/disco-perf-graph $(GRAPH_FLAGS)

PROFILES ?= prof/*

.PHONY: profile
profile: ## CPU time by package, from the profiles of disco-run --cpuprofile prof (PROFILES=files)
	@$(GO) -C perf/profile run -buildvcs=false . $(abspath $(wildcard $(PROFILES)))

.PHONY: pgo
pgo: ## renew cmd/disco-run/default.pgo, by which the compiler optimises disco-run (minutes; needs a quiet machine)
	GO=$(GO) sh perf/profile/pgo.sh

CHAOS ?= 2m

.PHONY: chaos
chaos: build ## get runs into every trouble of the grid (CHAOS=1h CHAOS_JSON=file CELL=pattern SEED=n)
	$(BUILD) -o bin/disco-chaos ./perf/chaos
	$(BUILD) -tags invariants -o bin/disco-chaos-checked ./perf/chaos
	bin/disco-chaos -program bin/disco-run -checked bin/disco-chaos-checked -time $(CHAOS) \
		$(if $(CHAOS_JSON),-json $(CHAOS_JSON)) $(if $(CELL),-cell '$(CELL)') $(if $(SEED),-seed $(SEED))

SOAK ?= 10m

.PHONY: soak
soak: build ## simulate for long, and see that nothing grows (SOAK=1h SOAK_JSON=file)
	$(BUILD) -o bin/disco-chaos ./perf/chaos
	bin/disco-chaos -program bin/disco-run -soak $(SOAK) $(if $(SOAK_JSON),-json $(SOAK_JSON))

.PHONY: clean
clean: ## remove what build made
	rm -rf bin man
