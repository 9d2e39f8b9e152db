# What a person or a script calls. `make` alone lists the targets.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODULE  := cloudteam.ztgame.com/network-controller
# A tag of IMAGE that is a version is the version of all that is built with it. Without one, it is that of the commit.
IMAGE_TAG := $(filter v%,$(word 2,$(subst :, ,$(notdir $(firstword $(subst @, ,$(IMAGE)))))))
VERSION ?= $(or $(IMAGE_TAG),$(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0))
LDFLAGS := -X $(MODULE)/internal/version.Version=$(VERSION)

# All is compiled in one way, so that the build cache serves programs, tests and linters, and other clones, too. Without C
# the binaries are static: the CNI plugin runs on nodes of any distribution.
export CGO_ENABLED := 0
# Without debugging tables, which only a debugger reads, compilers take a tenth less time. `make GOFLAGS=-gcflags= build`
# writes them: the last flag counts. Linters vet (`make verify`): with an empty cache, `go test` would spend a minute of
# two cores on it first.
OUR_GOFLAGS    := -trimpath -gcflags=all=-dwarf=false -vet=off
export GOFLAGS := $(strip $(OUR_GOFLAGS) $(filter-out $(OUR_GOFLAGS),$(GOFLAGS)))

# The race detector needs a C compiler; without one the tests run without it.
# It is asked only where it is used, because the first `go env` may download a toolchain in silence.
RACE = $(shell command -v "$$(go env CC)" >/dev/null && echo -race)
# What has it, and what compiles for it. At the end of each package, the detector would sleep for a second.
RACED         = GORACE=atexit_sleep_ms=100 CGO_ENABLED=$(if $(RACE),1,0) hack/race.sh $(RACE) -count=1
COMPILE_RACED = CGO_ENABLED=$(if $(RACE),1,0) $(COMPILE) $(RACE)
# Other tests in whose process the product runs take a sixth less CPU time when they collect garbage less often.
IN_PROCESS    = GOGC=400 go test

##@ Try it

.PHONY: demo
CLOUD     ?=
DEMOFLAGS ?=
demo: ## Show a network created, repaired and deleted, with the emulator or in CLOUD, an entry of clouds.yaml
	@LDFLAGS='$(LDFLAGS)' hack/demo.sh $(if $(CLOUD),--cloud='$(CLOUD)') $(DEMOFLAGS)

.PHONY: run
run: ## Start the same surroundings and the controller, and leave them running until Ctrl-C
	@LDFLAGS='$(LDFLAGS)' hack/demo.sh --stay $(if $(CLOUD),--cloud='$(CLOUD)') $(DEMOFLAGS)

##@ Build

.PHONY: build
build: ## Build the binaries into bin/
	@mkdir -p bin
	@echo "Building bin/ (the first time, with all dependencies, it takes minutes)"
	@hack/go-build.sh -ldflags '$(LDFLAGS)' -o bin/ ./cmd/... ./dev/controlplane ./dev/demo

.PHONY: image
PLATFORMS ?= linux/amd64 linux/arm64
IMAGE     ?= network-controller:$(VERSION)
image: ## Build the image, its SBOM and provenance into dist/, for PLATFORMS (linux/amd64 linux/arm64), without a daemon
	@VERSION='$(VERSION)' LDFLAGS='$(LDFLAGS)' hack/image.sh '$(IMAGE)' $(PLATFORMS)

.PHONY: install-yaml
install-yaml: ## Write dist/install.yaml and dist/crds.yaml, for `kubectl apply --server-side -f`, with IMAGE
	@mkdir -p dist
	go run ./tools/chart manifests config '$(IMAGE)' >dist/install.yaml
	go run ./tools/chart manifests config/crd '$(IMAGE)' >dist/crds.yaml

.PHONY: release
release: ## Make every artefact of the release VERSION in dist/, with checksums and provenance; RELEASE.md tells the rest
	@VERSION='$(VERSION)' LDFLAGS='$(LDFLAGS)' hack/release.sh '$(IMAGE)' $(PLATFORMS)

.PHONY: generate
generate: ## Write the generated code (pkg/client, deepcopy), the CRDs (config/crd), docs/{fields,flags,metrics}.md, and docs/images/demo.svg
	hack/generate.sh

.PHONY: clean
clean: ## Remove bin/ and dist/
	rm -rf bin dist

##@ Test

# The programs of a Kubernetes control plane, for the tests. The first time they are fetched, or built for minutes.
.PHONY: assets
assets:
	@mkdir -p bin
	@hack/go-build.sh -o bin/controlplane ./dev/controlplane
	@bin/controlplane assets --components=all >/dev/null

# Where they are. What looking them up prints was printed by the target assets.
ASSETS = $$(bin/controlplane assets --components=all 2>/dev/null)

# One control plane for all suites that follow SHARED. Where the run has one already, they use that.
.PHONY: test-controlplane
test-controlplane: assets
	@hack/go-build.sh -o bin/test-controlplane ./test/controlplane
SHARED = KUBEBUILDER_ASSETS="$(ASSETS)" bin/test-controlplane

# The packages whose tests need a control plane. They wait most of the time and have deadlines: one at a time (-p 1).
# CONVERGING has the product's code in the test's own process, STARTING starts the binaries that a user would.
CONVERGING := ./test/integration
STARTING   := ./test/rights ./test/reader ./dev/controlplane/...
# Those whose tests need none.
UNIT = $$(comm -23 <(go list ./... | sort) \
  <(go list $(CONVERGING) $(STARTING) ./dev/dataplane/... ./test/dataplane ./test/install | sort))

# Those of them that the race detector is too slow for.
TOOLS = ^$(MODULE)/(tools|test|internal/plan)(/|$$)
# Those of the others in which it has something to see: a goroutine, a lock, a channel or a server, in the code or in its
# tests.
THREADED = $$(comm -12 <(printf '%s\n' $(UNIT) | grep -Ev '$(TOOLS)') <(grep -rlE --include=*.go \
  '^\s+go |"(sync|sync/atomic|testing/synctest|net/http/httptest)"|x/sync/|\<chan |t\.Parallel' cmd config dev examples internal pkg | \
  xargs -n1 dirname | sed 's,^,$(MODULE)/,' | sort -u))
# Those of these that it is for, too, if they draw a fifth (-short).
DRAWING := ./test/adversary ./test/transitions ./test/e2e

# What the detector would take minutes for: tests that count bytes, or live through hours in which one thing happens after
# another.
UNRACED := ^(TestNoEventCostsMoreWithMoreObjects|TestWhatIsKeptOfAnObjectIsAllThatItTakes|TestBytesHeld|TestARestart|TestAPortOutlastsAnyInterleaving|TestNoBulkLacksAddresses|TestWhatIsFullIsTriedByOneAtATime|TestABundleHasNoSecret)$$
UNRACED_IN := ./test/adversary ./internal/app ./internal/kubectl ./internal/neutron/inventory \
  $(addprefix ./internal/controller/,deployment networkport)

# What runs with -p 1 is compiled one package at a time. This compiles first, with all CPUs.
COMPILE = go list -export -test

# These run in virtual time with the unit tests. Here is what of them stands for all, with the real binary.
SENTINELS = (E2E_PROCESSES=1 go test -short -count=1 -timeout 20m ./test/e2e; first=$$?; \
  FAULTS_PROCESSES=1 go test -short -count=1 -timeout 20m ./test/faults && exit $$first)

.PHONY: test
test: test-controlplane ## Run the tests before a commit, with a real control plane: 5 minutes
	@echo "Compiling and running the tests (the first time takes minutes)"
	status=0; $(IN_PROCESS) -short $(UNIT) || status=1; \
	$(COMPILE) $(CONVERGING) $(STARTING) >/dev/null; \
	$(SHARED) sh -c 'go test -short -p 1 -timeout 20m $(CONVERGING) $(STARTING); first=$$?; $(SENTINELS) && exit $$first' || status=1; \
	exit $$status

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane: 4 minutes
	$(IN_PROCESS) $(UNIT)

# The race detector sees its own process only. The fault suite takes ten minutes with it: see test-nightly.
.PHONY: test-race
test-race: test-controlplane ## Run the tests in whose process the product's code runs, with the race detector
	status=0; $(RACED) -timeout 20m -skip '$(UNRACED)' $(THREADED) || status=1; \
	$(RACED) -short -timeout 20m -skip '$(UNRACED)' $(DRAWING) || status=1; \
	$(COMPILE_RACED) $(CONVERGING) >/dev/null; \
	$(SHARED) env $(RACED) -p 1 -timeout 20m $(CONVERGING) || status=1; exit $$status

.PHONY: test-suites
test-suites: test-controlplane ## Run the demo, the fault suite, and the suites that start the binaries as a user would
	status=0; $(IN_PROCESS) -count=1 -timeout 20m \
	  $$(comm -23 <(printf '%s\n' $(UNIT)) <(printf '%s\n' $(THREADED) $$(go list $(DRAWING)) | sort)) || status=1; \
	$(IN_PROCESS) -short -count=1 -run '$(UNRACED)' $(UNRACED_IN) || status=1; \
	$(COMPILE) $(STARTING) >/dev/null; \
	$(SHARED) sh -c 'go test -short -count=1 -p 1 -timeout 20m $(filter-out ./test/reader,$(STARTING)); first=$$?; $(SENTINELS) && exit $$first' || status=1; \
	$(SHARED) go test -count=1 -timeout 20m ./test/reader || status=1; exit $$status

.PHONY: test-all
test-all: test-race test-suites ## Run test-race and test-suites

# The first two are mostly compilers, on a new machine, which collect garbage less often for it; the site's is of one
# thread, so they run beside each other. The others have deadlines, and none of them runs beside anything.
.PHONY: test-ci
test-ci: test-controlplane ## Run all that .ci/run does, after installing tools: half an hour (root, Debian)
	$(SHARED) hack/parts.sh 'GOGC=400 -k -j2 -Otarget verify docs' \
	  test-race test-suites test-monitoring test-ui test-dns test-install test-openstack test-dataplane

.PHONY: test-nightly
test-nightly: export NIGHTLY = 1
test-nightly: test-controlplane ## Run all tests whole, one package at a time, with those that need the machine for themselves
	status=0; $(IN_PROCESS) -p 1 -count=1 -timeout 0 $(UNIT) || status=1; \
	$(RACED) -timeout 0 ./test/faults || status=1; \
	$(SHARED) go test -p 1 -count=1 -timeout 0 $(CONVERGING) $(STARTING) || status=1; \
	E2E_PROCESSES=1 ADVERSARY_PROCESSES=1 FAULTS_PROCESSES=1 $(SHARED) \
	  go test -p 1 -count=1 -timeout 0 ./test/e2e ./test/adversary ./test/faults || status=1; \
	KUBEBUILDER_ASSETS="$(ASSETS)" hack/bench.sh smoke || status=1; \
	$(MAKE) walk || status=1; exit $$status

.PHONY: nightly
nightly: export NIGHTLY = 1
nightly: ## Run before a release what is too long for each change, alone on the machine (root, Debian): hours
	hack/parts.sh test-nightly test-compatibility soak fuzz test-monitoring test-ui test-dns test-install test-openstack-all test-dataplane-all \
	  $(foreach release,21 29,'NEUTRON=$(release) test-openstack' 'NEUTRON=$(release) test-dataplane') mutants

.PHONY: mutants
MUTANTS ?= ./internal/policy ./internal/plan ./internal/neutron/inventory ./internal/node/agent \
  $(addprefix ./internal/controller/,netpolicy managed floatingip securitygroup pod deployment networkport)
mutants: ## Put small mistakes into packages (MUTANTS), a sample or ALL=1, and report which ones their unit tests miss: long
	nice go run ./tools/mutants $(if $(ALL),-all) $(MUTANTS)

.PHONY: test-install
test-install: PLATFORMS = linux/$(shell go env GOARCH)
test-install: test-controlplane ## Test the chart, build the image, and run it in containerd (root, Debian)
	@export VERSION='$(VERSION)' LDFLAGS='$(LDFLAGS)'; $(SHARED) hack/test-install.sh '$(IMAGE)' $(PLATFORMS)

# With RECORD=1, docs/compatibility.md gets the outcome of the command that follows, in a column and a row.
RECORD ?=
record = $(if $(RECORD),bin/compatibility -column="$(1)" -row="$(2)" --)
.PHONY: recorder
recorder:
	@$(if $(RECORD),hack/go-build.sh -o bin/compatibility ./tools/compatibility)

.PHONY: test-compatibility
KUBERNETES ?= 1.34 1.35 1.36 1.37
test-compatibility: recorder ## Test against other versions: make test-compatibility KUBERNETES=1.34 (builds it once, for many minutes)
	@hack/go-build.sh -o bin/test-controlplane ./test/controlplane
	@status=0; for version in $(KUBERNETES); do echo "Kubernetes $$version"; \
	  export KUBEBUILDER_ASSETS="$$(hack/kubernetes.sh "$$version" all)" && [ -n "$$KUBEBUILDER_ASSETS" ] || exit; \
	  $(call record,Kubernetes $$version,API and admission) \
	    bin/test-controlplane go test -count=1 -timeout 30m ./test/integration || status=1; \
	  $(call record,Kubernetes $$version,life of each kind) \
	    env E2E_PROCESSES=1 bin/test-controlplane go test -short -count=1 -timeout 30m -run '$(LIVES)' ./test/e2e || status=1; \
	done; exit $$status

.PHONY: test-monitoring
test-monitoring: test-controlplane ## Have the real Prometheus scrape the binary: each alert fires and clears, each panel has data (Debian)
	@path="$$(hack/prometheus.sh)"; \
	PATH="$$PATH:$$path" MONITORING=1 $(SHARED) go test -count=1 -timeout 60m ./test/monitoring

.PHONY: test-ui
UIFLAGS ?=
test-ui: test-controlplane ## Show kubectl network ui, and the site of make docs, in Chromium (Debian); UIFLAGS=-update takes the pictures of the docs
	@hack/chromium.sh
	@# -mod=mod: the product's go.mod, which this module replaces, may have changed.
	$(SHARED) go -C test/ui test -mod=mod -v -count=1 -timeout 60m . $(UIFLAGS)
	go -C test/ui test -mod=mod -v -count=1 -timeout 20m ./site

.PHONY: test-dns
test-dns: test-controlplane ## Have the real CoreDNS, built from source, resolve the names of Services with endpoints on a Network
	@# -mod=mod: the product's go.mod, which this module replaces, may have changed.
	$(SHARED) go -C test/dns test -mod=mod -count=1 -timeout 20m .

# The life of each kind, of the end-to-end tests.
LIVES := ^TestLives$$
FIELDS := ^TestEveryField$$
# End-to-end tests that bring an emulator of their own, or make nothing in the cloud: beside a real Neutron they do what
# they do beside the emulator, and show no more.
WITHOUT_NEUTRON := ^(TestOrphans|TestRestoredCluster|TestTenantsCannotFillTheMemory|TestTheControllerDoesWhatWasPlanned|TestVersionSkew|TestWhyNamesTheCauseOfEachReason)$$

# The Neutron of these suites: 21, 26 or 29. A cloud of another release is replaced.
NEUTRON ?= 26

# real runs a suite beside the real Neutron. That is one process, so it has one suite at a time. RECORD is for a suite with
# a row.
REAL = export KUBEBUILDER_ASSETS="$(ASSETS)"; status=0 row=; \
	real() { echo "go test $$*"; $${row:+$(call record,Neutron $(NEUTRON),$$row)} dev/openstack/openstack run -- env CONTRACT_OPENSTACK=1 E2E_OPENSTACK=1 FAULTS_OPENSTACK=1 \
	  ADVERSARY_OPENSTACK=1 go test -count=1 -p 1 "$$@" || status=1; }

.PHONY: test-openstack
E2E ?= $(LIVES)|$(FIELDS)
test-openstack: assets recorder ## Start a real Keystone and Neutron (NEUTRON: 21, 26 or 29), and run the contract, each kind and field, and some faults there (E2E: which end-to-end tests)
	dev/openstack/openstack up --release=$(NEUTRON)
	@$(REAL); row='$(if $(filter file,$(origin E2E)),each kind and field)' real -short -timeout 40m -run '$(E2E)' ./test/e2e; \
	row=faults real -short -timeout 40m -run '^TestFaults$$' ./test/faults; \
	row=contract real -short -timeout 40m ./test/contract/...; exit $$status

.PHONY: test-openstack-all
test-openstack-all: assets ## The same with all end-to-end tests, the whole contract, the adversary and the faults
	dev/openstack/openstack up --release=$(NEUTRON)
	@$(REAL); real -timeout 0 -skip '$(WITHOUT_NEUTRON)' ./test/e2e; \
	real -timeout 0 ./test/adversary ./test/contract/... ./test/faults; exit $$status

# What follows these runs beside Neutron with a data plane, and has the kubelet and Multus.
DATAPLANE = export KUBEBUILDER_ASSETS="$(ASSETS)"; \
	export DATAPLANE_ASSETS="$$(bin/controlplane assets --components=kubelet,multus)"; \
	dev/openstack/openstack run --dataplane --

.PHONY: test-dataplane
test-dataplane: assets recorder ## Start a real Neutron with OVN, nodes and kubelets, and send packets between Pods (root, Debian)
	dev/openstack/openstack up --dataplane --release=$(NEUTRON)
	$(DATAPLANE) $(call record,Neutron $(NEUTRON),packets) hack/test-dataplane.sh -short

.PHONY: test-dataplane-all
test-dataplane-all: assets ## The same, with failures, the chart, a node in a virtual machine, and Neutron's Open vSwitch agents
	dev/openstack/openstack up --dataplane --release=$(NEUTRON)
	export DATAPLANE_KERNEL="$$(dev/dataplane/kernel)"; $(DATAPLANE) hack/test-dataplane.sh

.PHONY: run-dataplane
run-dataplane: assets ## Start the same parts, and leave them running until Ctrl-C
	dev/openstack/openstack up --dataplane --release=$(NEUTRON)
	$(DATAPLANE) env DATAPLANE_OPENSTACK=1 DATAPLANE_STAY=1 \
	  go test -v -count=1 -run '^TestStay$$' -timeout 0 ./test/dataplane

.PHONY: reliability
reliability: ## Run the fault tests against the emulator, in virtual time, and write their results into docs/reliability.md
	hack/reliability.sh emulator

.PHONY: reliability-openstack
reliability-openstack: assets ## The same against a real Keystone and Neutron; its results stay beside the emulator's
	export KUBEBUILDER_ASSETS="$(ASSETS)"; hack/reliability.sh openstack

.PHONY: soak
SOAKCHECKS ?= 60
soak: ## Take Networks, and tenants, through 4 × SOAKCHECKS (60) new random sequences of what may happen to them
	$(RACED) -p 1 -timeout 0 ./test/transitions ./test/adversary \
	  -run='TestConvergedStateIsPathIndependent|TestTenantsGetTheirOwn' -anew -rapid.checks=$(SOAKCHECKS) -rapid.steps=20

.PHONY: fuzz
FUZZTIME ?= 60s
fuzz: ## Run each fuzz target for FUZZTIME (60s)
	hack/fuzz.sh $(FUZZTIME)

##@ Measure

.PHONY: bench
BENCHFLAGS ?=
bench: assets ## Measure against the emulator, and a real Neutron where one is up, and write docs/benchmarks.md
	export KUBEBUILDER_ASSETS="$(ASSETS)"; hack/bench.sh $(BENCHFLAGS)

.PHONY: bench-dataplane
bench-dataplane: assets ## Measure the data plane with packets, and write docs/benchmarks.md (root, Debian)
	dev/openstack/openstack up --dataplane --release=$(NEUTRON)
	$(DATAPLANE) go run ./test/bench --cloud=dataplane --write=docs/benchmarks.md

.PHONY: bench-sizing
bench-sizing: assets ## Measure what 100, 1,000 and 10,000 Networks and Pods take, and write docs/sizing.md: long
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench --cloud=sizing --write=docs/sizing.md

.PHONY: bench-fleet
bench-fleet: assets ## Measure a start, an audit and edits beside 10,000 and 100,000 Networks and Pods, and print the figures: long
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench --cloud=fleet --sizes=10000,100000

.PHONY: benchstat
BENCHCOUNT ?= 6
benchstat: ## Run the Go benchmarks BENCHCOUNT (6) times into bin/bench.txt; BASE=<file> compares with an older one
	hack/benchstat.sh "$(BENCHCOUNT)" $(BASE)

##@ Check

.PHONY: verify
verify: ## Check that generated code, formatting and lint are as they should be, and look for known vulnerabilities
	hack/verify-generate.sh
	hack/lint.sh
	go run ./tools/docs
	hack/govulncheck.sh

.PHONY: lines
lines: ## Count the hand-written lines of the product, by package
	@hack/lines.sh

.PHONY: walk
walk: ## Count the functions and files that one key runs through, and hold them to a limit
	@mkdir -p bin/walked
	hack/go-build.sh -cover -covermode=atomic -coverpkg=./internal/...,./test/walk -o bin/walk ./test/walk
	@cd test/walk && GOCOVERDIR=../../bin/walked ../../bin/walk

.PHONY: lint
lint: ## Run golangci-lint, mending what it can
	hack/lint.sh --fix

##@ Documents

.PHONY: docs
VERSIONS ?=
docs: ## Check the documents, and build their site into dist/docs (Node.js 18 or later), with those of VERSIONS, tags of releases
	hack/docs.sh $(VERSIONS)

.PHONY: docs-serve
docs-serve: docs ## Serve the site on http://localhost:4173, until Ctrl-C
	cd tools/docs/site; npm run serve

##@ Help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
