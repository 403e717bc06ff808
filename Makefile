# Everything that a developer does here. Needs Go, git, make, a C compiler (for
# the race detector) and a Go module proxy; what else is needed is built into bin/.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# make ignores a variable that nothing reads, such as a misspelled one. Here that is an error, except for what
# Go and the sidecar find in their environment; they check it themselves.
GIVEN := $(foreach v,$(.VARIABLES),$(if $(filter command,$(origin $v)),$v))
UNREAD := $(strip $(foreach v,$(filter-out GO% CGO_% LOCKSTEP_% MAKE% CC,$(GIVEN)),$(if $(shell grep -F '$$($v)' $(firstword $(MAKEFILE_LIST))),,$v)))
MEANT = $(shell sed -n 's/.*\#\# //p' $(firstword $(MAKEFILE_LIST)) | grep -oE '[A-Z_]{4,}' | awk -v given="$(firstword $(UNREAD))" -f build/nearest.awk)
$(if $(UNREAD),$(error $(UNREAD): no target has such a variable$(MEANT); make help lists them; put variables for other programs before make: NAME=value make TARGET))

export GOTOOLCHAIN ?= local
BIN := $(CURDIR)/bin

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)

KUBE_VERSION := $(shell sed -n 's|.*k8s\.io/kubernetes \(v[0-9.]*\)$$|\1|p' test/kube/go.mod)
KUBE_MINOR := $(word 2,$(subst ., ,$(KUBE_VERSION)))
kube_ldflags = -s -w $(foreach v,gitVersion=$(1) gitMajor=1 gitMinor=$(KUBE_MINOR),-X k8s.io/component-base/version.$(v))
KUBE_LDFLAGS := $(call kube_ldflags,$(KUBE_VERSION))
# The linker drops what debuggers need (-s -w), so the compiler need not write it: an eighth less to compute. Without inlining
# (-l) it is a seventh less again, and requests cost a kube-apiserver as much as before. Only for these packages: the others
# are shared with programs that keep both.
KUBE_BUILD = $(BUILD) go build -buildvcs=false -trimpath -gcflags='k8s.io/...=-dwarf=false -l'

# The kube-apiservers of the releases to which the demo upgrades.
NEXT_APISERVERS := bin/kube-apiserver-1.1.0 bin/kube-apiserver-1.2.0

# A clone without tags, or a directory without git, still builds.
VERSION := $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
STAMP := github.com/lockstep-dev/lockstep/internal/buildinfo
# Functions begin at multiples of 4 bytes, not of 32: that is 0.7 MB of the sidecar. Dockerfile has the
# same flags. docs/adr/0001-dependencies.md has what else keeps it small.
LDFLAGS := -s -w -funcalign=4 $(if $(VERSION),-X $(STAMP).version=$(VERSION)) $(if $(COMMIT),-X $(STAMP).commit=$(COMMIT))

# The modules beside the main one: what they need is not what the sidecar needs.
MODULES := $(patsubst %/go.mod,%,$(wildcard test/*/go.mod build/image/go.mod))

# Builds, vet and the tests of those modules agree on how packages are compiled, so
# that each is compiled once for all of them.
STATIC := CGO_ENABLED=0
# The compiler collects its garbage less often: a quarter less to compute, and a fifth more memory.
BUILD := $(STATIC) GOGC=400

# The tags with which the sidecar is built.
TAGS := $(shell sed -n 's/^tags=//p' build/sidecar)

# What ends up in the sidecar: everything but tests, and files that it embeds.
SIDECAR_SOURCES := go.mod go.sum $(shell find . \( -path ./bin -o -path ./.git -o -path ./test -o -name testdata \) -prune \
	-o -type f \( -name '*.go' -o -name '*.yaml' -o -name '*.html' -o -name '*.css' -o -name '*.js' \) ! -name '*_test.go' -print)

##@ Use

.PHONY: help
help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-zA-Z_\/-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# With a cluster of one's own nothing has to be built but the sidecar.
OWN_CLUSTER := $(and $(KUBECONFIG),$(ETCD_SERVERS))

.PHONY: run
run: ## one node here by one command; CLUSTER=external: etcd, kube-apiserver, sidecar; or a sidecar for the cluster of KUBECONFIG and ETCD_SERVERS; BUNDLE=DIR: with a bundle of your own
	@$(call start_with,run,$(if $(OWN_CLUSTER),nothing,bin/kube-apiserver))
	@exec $(BIN)/local-run --assets=$(BIN) --cluster=$(CLUSTER) --bundle="$(BUNDLE)"

.PHONY: demo
demo: ## three nodes here, each by one command, upgraded twice and rolled back, one node after another, with clients (two minutes); CLUSTER=external: with a shared etcd
	@$(if $(filter BUNDLE,$(GIVEN)),$(error BUNDLE: the demo has bundles of its own; make run BUNDLE=DIR starts one node with yours))$(call start_with,demo,bin/kube-apiserver $(NEXT_APISERVERS) bin/kubelet-probe)
	@exec $(BIN)/local-demo --assets=$(BIN) --cluster=$(CLUSTER)

# start_with builds the sidecar, the program of that name in test/local, and the targets of a list. The first two have
# most packages in common, so with the same tags each of these is compiled once. While one processor links and
# packs them, the other one compiles the kube-apiserver.
start_with = [ -e bin/sidecar ] || $(BUILD) go list -trimpath -tags=$(TAGS) -export -deps ./cmd/sidecar ./cmd/etcd-member ./test/local/$(1) >/dev/null; \
	$(call side_by_side,bin/sidecar bin/local-$(1),$(2))

.PHONY: nothing bin/local-run bin/local-demo
nothing:
bin/local-run bin/local-demo: bin/local-%:
	@$(BUILD) go build -trimpath -tags=$(TAGS) -o $@ ./test/local/$*

.PHONY: build
build: bin/sidecar ## build bin/sidecar

##@ Check

# side_by_side makes two lists of targets at the same time, and fails if one of them failed. With -j
# all targets of a list would begin at once. A shell lets what it runs beside ignore Ctrl-C.
side_by_side = trap 'kill -TERM 0' INT; $(MAKE) --no-print-directory $(1) & first=$$!; failed=0; $(MAKE) --no-print-directory $(2) || failed=1; wait $$first || failed=1; exit $$failed

# What is cheap comes first, so that most mistakes show within a minute. The other steps run side by side:
# the tests of real processes mostly wait, and what only computes fills that time at a lower priority.
.PHONY: check quick
check: quick programs ## everything that a change has to pass, with make model
	$(BUILD) go list -trimpath -export -deps -test ./... >/dev/null
	@$(call side_by_side,test-raced,lint vet test-plain)

quick: format-check tidy-check docs

# Without the race detector, without go vet (which has a target of its own), and
# without the tests that start a kube-apiserver: these are skipped, and say so.
.PHONY: unit
unit: ## the tests that need no kube-apiserver (two minutes on a fresh clone, then seconds)
	$(STATIC) go test -trimpath -vet=off ./...

# What only computes leaves the processors to what waits, which would miss its time.
COMPUTES := nice -n 19

.PHONY: test
test: export RACE := yes
test: docs vet test-plain test-raced attack ## every test, the end-to-end ones too, with the race detector also in what starts processes, and each attack for ATTACK=1m

# Tests end sidecars after each step, or let them write traces, and pause members of etcd. Where make did not build
# these programs, each process of a test builds its own: a link takes two seconds of a processor.
VARIANTS := bin/steps/sidecar bin/trace/sidecar bin/etcdmember

.PHONY: programs
programs: bin/sidecar bin/kube-apiserver $(NEXT_APISERVERS) bin/kubectl bin/kubelet-probe bin/etcdutl bin/etcdctl $(VARIANTS) ## build what tests run

# Four lists run side by side, so that each ends after about ten minutes. Three have the tests of processes, one package of each
# at once and two tests of a package: with three, they compute a fifth more, and end no earlier. The fourth one has the tests of
# one process, four packages at once. LONG begins it: what takes longest, two packages that compute beside two that mostly wait.
FIRST := $(addprefix ./test/,quorum)
SECOND := $(addprefix ./test/,e2e soak)
THIRD := $(addprefix ./test/,roles balancers service local/run join turns attack)
PROCESSES := $(FIRST) $(SECOND) $(THIRD)
LONG := $(addprefix ./,reconcile cmd/sidecar etcd election internal/app internal/cluster/quorum test/page internal/cluster/backup \
	internal/cluster trace test/upstream fleet internal/cluster/member test/cluster internal/cluster/enrol internal/role/service/systemd)
# Without the race detector: what counts allocations or decodes many megabytes, what only reads the repository
# (make docs), and the model, where only tests have goroutines. Their heaps are large, so that twice the heap saves a tenth.
PLAIN := ./internal/model ./internal/repotest
MODEL_TEST := $(STATIC) GOGC=200 $(COMPUTES) go test -trimpath -vet=off ./internal/model

# GOGC: tests, and the programs that they start, collect their garbage less often. A kube-apiserver that starts
# computes a third less. What measures a program sets the usual value for it.
TESTED = GOGC=400 LOCKSTEP_E2E_ASSETS=$(BIN) go test $(1) -trimpath -vet=off -timeout=40m $(if $(SHARES),-exec=$(CURDIR)/test/share.sh)
# go test links without debug information; reports of races name functions and lines all the same. A tenth less to compile.
RACE_BUILD := -race -gcflags=all=-dwarf=false
RACED := CGO_ENABLED=1 $(call TESTED,$(RACE_BUILD))
COMPILE_RACED = go list $(RACE_BUILD) -trimpath -export -deps -test
# Of PROCESSES only the tests themselves run in the process that the race detector would see; the programs
# that they start are built without it. So only `make test` has it there: it would compute as much as these programs.
SEEN := $(if $(RACE),$(RACED),$(STATIC) $(call TESTED))
OTHERS := $$(go list ./... | grep -vxF -f <(go list $(PROCESSES) $(PLAIN)))

# What `make soak` and `make test` run, and `make check` does not: whole control planes.
LATER := TestSoakEmbedded|TestSoakRoles|TestRollingUpgrade_external
SKIP_LATER := $(if $(RACE),,-skip='^($(LATER))$$')

# SHARES=FILE prints how much each package took and computed at the end; then no result comes from Go's cache.
# go list compiles, so that what runs side by side does not compile the same packages at the same moment. The tests of processes
# do not wait for the packages with the race detector, which they do not use. The compiler leaves processors to members of etcd
# (nice), but not to the linter.
.PHONY: test-raced test-processes test-first test-second test-third test-rest test-others test-plain
test-raced: export ROOT := $(CURDIR)
test-raced: programs
	@rm -f $(SHARES)
	$(if $(RACE),CGO_ENABLED=1 GOGC=400 $(COMPILE_RACED) ./... >/dev/null)
	@$(call side_by_side,test-processes,test-rest)
	$(if $(SHARES),@test/share.sh --print)

test-processes:
	@$(call side_by_side,test-first,test-second)

test-rest:
	@$(call side_by_side,test-third,test-others)

test-first test-second test-third:
	$(SEEN) -p=1 -parallel=2 $(SKIP_LATER) $(LIST)
test-first: LIST = $(FIRST)
test-second: LIST = $(SECOND)
test-third: LIST = $(THIRD)

test-others:
	$(if $(RACE),,CGO_ENABLED=1 GOGC=400 nice -n 10 $(COMPILE_RACED) $(OTHERS) >/dev/null)
	$(RACED) -p=3 $(LONG) $(OTHERS)

# -vet=off: make vet already vets everything. On a fresh machine that saves 40 s of a processor.
# MODEL=whole, for a run of both: make model repeats the searches in larger worlds, and runs the other tests of the model, too.
test-plain: programs
	for module in $(MODULES); do (cd $$module && LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) nice go test -vet=off -timeout=40m -trimpath ./...); done
	$(if $(filter whole,$(MODEL)),,$(MODEL_TEST) -timeout=40m)
	LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) nice go test -vet=off -timeout=40m -trimpath ./reconcile ./httpapi -run='TestMemoryOf|allocatesNothing'

# A real kubeadm with a real kubelet, on Debian's containerd and runc; the image is built from
# the Dockerfile, by Debian's buildah. It needs root.
KUBELET_ASSETS := $(addprefix bin/,sidecar kube-apiserver kube-controller-manager kube-scheduler kubeadm kubelet kubectl etcd lockstep.tar \
	next/kube-apiserver next/kube-controller-manager next/kube-scheduler)

.PHONY: kubelet-test
kubelet-test: $(KUBELET_ASSETS) ## docs/kubeadm.md typed on a node with a real kubelet (eight minutes; the first time builds for half an hour)
	LOCKSTEP_KUBEADM_ASSETS=$(BIN) $(STATIC) go test -trimpath ./test/kubeadm -run='TestKubelet$$' -count=1 -v -timeout=20m

.PHONY: kubeadm-test
kubeadm-test: $(KUBELET_ASSETS) ## docs/kubeadm.md typed on three nodes: init, join, an upgrade and new certificates in turns, with clients behind HAProxy and of the Service (thirteen minutes, 3 GB)
	LOCKSTEP_KUBEADM_ASSETS=$(BIN) $(STATIC) go test -trimpath ./test/kubeadm -run='TestKubeadm$$' -count=1 -v -timeout=40m

.PHONY: docs
docs: ## the repository's own rules: words, links, citations, names, sizes, imports
	$(STATIC) go test -trimpath ./internal/repotest

# What it finds is kept in testdata/fuzz of the package; commit it with the fix.
FUZZ := reconcile/bundle:FuzzLoad status:FuzzDecode reconcile/bundle:FuzzDigest status:FuzzEncode reconcile/internal/applyset:FuzzMark \
	internal/cluster/token:FuzzParse internal/cluster/enrol:FuzzParse httpapi:FuzzRequest httpapi:FuzzCredentials httpapi:FuzzLockRequest \
	internal/cluster/enrol:FuzzClientCertificate internal/cluster/enrol:FuzzServerCertificates httpapi:FuzzClientCertificates \
	internal/cluster/member/ports:FuzzHandshake
# The seconds for all of them. Two run at the same time, each with one worker.
FUZZTIME ?= 150

.PHONY: fuzz
fuzz: ## look for bundles, statuses, marks, tokens, requests, credentials and certificates that break what reads them, FUZZTIME seconds in all
	printf '%s\n' $(FUZZ:%=./%) | $(STATIC) xargs -P2 -n1 test/fuzz.sh $$(($(FUZZTIME) * 2 / $(words $(FUZZ))))s

# Others that apply objects: each has a module of its own, with the versions that
# are compared, and is built for the benchmarks only.
PEERS := $(BIN)/peer-kubectl $(BIN)/peer-flux $(BIN)/peer-helm

# -cases=GROUP and more in BENCH_ARGS; bin/bench -h lists them. The peers are
# built for the cases that have them only.
NEEDS_PEERS := $(if $(findstring cases,$(BENCH_ARGS)),$(findstring reconcile,$(BENCH_ARGS))$(findstring apply,$(BENCH_ARGS)),yes)

.PHONY: bench
bench: bin/sidecar bin/kube-apiserver $(if $(NEEDS_PEERS),$(PEERS)) $(if $(findstring recorder,$(BENCH_ARGS)),bin/trace/sidecar) ## what docs/benchmarks.md promises, measured beside others (27 minutes)
	@cd test/bench && $(BUILD) go build -trimpath -o $(BIN)/bench .
	@exec $(BIN)/bench -assets=$(BIN) $(BENCH_ARGS)

# It needs root and Linux: the strangers are addresses of a network namespace.
ATTACK ?= 1m

.PHONY: attack
attack: bin/sidecar ## what strangers do over the network, each for ATTACK=1m: what it costs a sidecar, and whether probes go on (19 minutes)
	LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) go test -trimpath ./test/attack -run='TestAttack$$' -count=1 -v -timeout=0 -attack.duration=$(ATTACK)

SEARCHES := TestProgressOfEvery|TestExhaustive|TestMembers|TestEndpoints|TestRotation|TestTurns

.PHONY: model
model: ## every order of events in bounded worlds: 63 million states (about six minutes)
	$(if $(filter whole,$(MODEL)),$(MODEL_TEST) -skip='$(SEARCHES)')
	$(MODEL_TEST) -run '$(SEARCHES)' -timeout=3h -v -model.full

# -run=NAME in MUTANTS_ARGS: only those. Each is one patch in test/mutants/patches.
.PHONY: mutants
mutants: bin/kube-apiserver ## break production code in small ways: for each, a test must fail (half an hour)
	LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) go run -trimpath ./test/mutants $(MUTANTS_ARGS)

# The race detector stays out of it: the sidecars are built without, and it would
# take the soak itself more than its share of the machine.
DURATION ?= 30m
SOAK_TEST = $(if $(filter-out embedded roles,$(CLUSTER)),$(error CLUSTER=$(CLUSTER): must be embedded or roles, or empty))$(if $(filter embedded,$(CLUSTER)),TestSoakEmbedded,$(if $(filter roles,$(CLUSTER)),TestSoakRoles,TestSoak))
SOAK_FLAGS := -soak.duration=$(DURATION) $(if $(SEED),-soak.seed=$(SEED)) $(if $(STRANGERS),-soak.strangers)
SOAK_OUT := $(BIN)/soak

.PHONY: soak
soak: bin/sidecar bin/kube-apiserver $(NEXT_APISERVERS) bin/kubectl bin/etcdutl bin/kubelet-probe ## real processes, upgrades and faults of a seed, judged: DURATION=30m SEED=N CLUSTER=embedded|roles STRANGERS=yes
	@mkdir -p $(SOAK_OUT)
	$(if $(filter embedded roles,$(CLUSTER)),,LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) go test -trimpath ./test/e2e -run 'TestTenant$$|TestSituations$$|TestRollingUpgrade_external$$|TestFlagsEverywhere$$' -count=1 -v -timeout=0 -tenant.load=1m -situations -flags)
	$(if $(filter embedded roles,$(CLUSTER)),,LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) go test -trimpath ./reconcile -run 'TestStaleLeadersExactly$$' -count=1 -v -timeout=0 -reconcile.stale=66)
	$(if $(filter embedded,$(CLUSTER)),LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) go test -trimpath ./test/quorum -run 'TestMember_awayUnderLoad$$|TestJoin_manyAtOnce$$' -count=1 -v -timeout=0 -quorum.away=1m -quorum.joining=10)
	LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) go test -trimpath ./test/soak -run '$(SOAK_TEST)$$' -count=1 -v -timeout=0 -artifacts -outputdir=$(SOAK_OUT) $(SOAK_FLAGS)

.PHONY: vet
vet: ## go vet, in all modules
	for module in . $(MODULES); do (cd $$module && $(STATIC) $(COMPUTES) go vet -trimpath ./...); done

# Modules with the dependencies of the main one. As one workspace, the linter analyzes each dependency once: a fifth less
# to compute on a fresh machine.
ALIKE := test/bench test/chart test/embed

# GOFLAGS: what the tests have compiled serves the linter too. Without it, it compiles all dependencies again: 150 s of a
# processor on a fresh machine.
.PHONY: lint
lint: export GOFLAGS := -trimpath
lint: $(GOLANGCI_LINT) ## golangci-lint, with the project's configuration
	@rm -f $(BIN)/lint.work
	@GOWORK=$(BIN)/lint.work go work init . $(ALIKE)
	GOWORK=$(BIN)/lint.work $(LINT) ./... $(ALIKE:%=./%/...)
	for module in $(filter-out $(ALIKE),$(MODULES)); do (cd $$module && $(LINT) ./...); done

LINT = $(STATIC) $(COMPUTES) $(GOLANGCI_LINT) run --timeout=40m --config=$(CURDIR)/.golangci.yml

.PHONY: format
format: ## gofmt everything
	gofmt -w $$(find . -name '*.go' -not -path './bin/*')

.PHONY: format-check
format-check: ## fail if gofmt would change something
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './bin/*')); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make format:"; echo "$$unformatted"; exit 1; fi

.PHONY: tidy
tidy: ## go mod tidy, in all modules
	for module in . $(MODULES) test/bench/peers/* test/tools/* build/tools/*; do (cd $$module && go mod tidy); done

.PHONY: tidy-check
tidy-check: ## fail if go mod tidy would change something
	for module in . $(MODULES); do (cd $$module && go mod tidy -diff); done

##@ Release

# Ten minutes on two cores, most of them for the second time, which begins with an empty build cache.
.PHONY: release
release: ## all files of a release in dist/, made twice and compared: VERSION=v1.2.3
	@build/release "$(VERSION)" dist

.PHONY: release-test
release-test: RELEASE ?= dist
release-test: bin/kube-apiserver bin/kubectl ## install what is in a release, start it, and upgrade it to NEXT, on three machines (three minutes; it needs root): RELEASE=DIR NEXT=DIR
	LOCKSTEP_RELEASE=$(abspath $(RELEASE)) LOCKSTEP_NEXT_RELEASE=$(abspath $(or $(NEXT),$(RELEASE))) LOCKSTEP_E2E_ASSETS=$(BIN) $(STATIC) go test -trimpath ./test/release -count=1 -v

# VULNDB is a directory with the vulnerability database, for a machine that does not reach vuln.go.dev.
.PHONY: vuln
vuln: ## known vulnerabilities in code that the sidecar calls: VULNDB=DIR
	cd build/tools/govulncheck && $(BUILD) go build -trimpath -o $(BIN)/govulncheck tool
	$(STATIC) $(BIN)/govulncheck $(if $(VULNDB),-db=file://$(abspath $(VULNDB))) ./cmd/sidecar

.PHONY: clean
clean: ## remove all that was built
	rm -rf $(BIN) cmd/sidecar/etcd-member.* dist

# Files. Each is built only when something that it is made of has changed.
# -buildvcs=false: the stamps above take its place, and a clone of another owner
# builds too.

# The process of the etcd member is a program inside the sidecar, compressed
# (docs/adr/0021-a-program-of-its-own-for-the-member.md). build/sidecar makes both, for the image too.
bin/sidecar: $(SIDECAR_SOURCES) build/sidecar
	$(STATIC) LDFLAGS='$(LDFLAGS)' build/sidecar $@

bin/steps/sidecar bin/trace/sidecar: bin/%/sidecar: $(SIDECAR_SOURCES)
	$(BUILD) go build -trimpath -buildvcs=false -ldflags='-s -w' -tags=lockstep_$* -o $@ ./cmd/sidecar

bin/etcdmember: $(SIDECAR_SOURCES) $(wildcard test/cluster/etcdmember/*.go)
	$(BUILD) go build -trimpath -buildvcs=false -ldflags='-s -w' -o $@ ./test/cluster/etcdmember

bin/kube-apiserver: test/kube/go.mod test/kube/go.sum
	@echo "building kube-apiserver $(KUBE_VERSION) from source; on two cores this takes about three minutes, once"
	cd test/kube && $(KUBE_BUILD) -ldflags='$(KUBE_LDFLAGS)' -o $(BIN)/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	@touch $@

# Only the version that it reports differs, so only the last step of the build is repeated.
$(NEXT_APISERVERS): bin/kube-apiserver-%: test/kube/go.mod test/kube/go.sum | bin/kube-apiserver
	cd test/kube && $(KUBE_BUILD) -ldflags='$(call kube_ldflags,$(KUBE_VERSION)+$*)' -o $(BIN)/kube-apiserver-$* k8s.io/kubernetes/cmd/kube-apiserver
	@touch $@

# Tests alone use it, to see that it understands what the reconciler writes.
bin/kubectl: test/kube/go.mod test/kube/go.sum
	cd test/kube && $(KUBE_BUILD) -ldflags='$(KUBE_LDFLAGS)' -o $(BIN)/kubectl k8s.io/kubernetes/cmd/kubectl
	@touch $@

# What a node of kubeadm needs beside it. kubeadm has the later of two version stamps, so
# that it can upgrade what it has installed: the same source with the other stamp.
KUBE_NEXT := $(shell echo $(KUBE_VERSION) | awk -F. '{ print $$1 "." $$2 "." $$3 + 1 }')

bin/kubelet bin/kube-controller-manager bin/kube-scheduler: test/kube/go.mod test/kube/go.sum
	cd test/kube && $(KUBE_BUILD) -ldflags='$(KUBE_LDFLAGS)' -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/$(notdir $@)
	@touch $@

bin/kubeadm bin/next/kube-apiserver bin/next/kube-controller-manager bin/next/kube-scheduler: test/kube/go.mod test/kube/go.sum
	@mkdir -p $(@D)
	cd test/kube && $(KUBE_BUILD) -ldflags='$(call kube_ldflags,$(KUBE_NEXT))' -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/$(notdir $@)
	@touch $@

bin/etcd: go.mod go.sum
	$(BUILD) go build -buildvcs=false -trimpath -ldflags='-s -w' -o $@ go.etcd.io/etcd/server/v3

bin/lockstep.tar: Dockerfile .dockerignore test/kubeadm/image.sh $(SIDECAR_SOURCES)
	test/kubeadm/image.sh $(CURDIR)/$@ lockstep.test/lockstep:1.0.0

bin/kubelet-probe: test/kube/go.mod test/kube/go.sum $(wildcard test/kube/kubelet-probe/*.go)
	cd test/kube && $(KUBE_BUILD) -ldflags='$(KUBE_LDFLAGS)' -o $(BIN)/kubelet-probe ./kubelet-probe
	@touch $@

# Tests and the soak restore etcd with the one, and make users of etcd with the other, as people do.
bin/etcdutl bin/etcdctl: bin/%: test/tools/%/go.mod test/tools/%/go.sum
	cd test/tools/$* && $(BUILD) go build -buildvcs=false -trimpath -ldflags='-s -w' -o $(BIN)/$* tool
	@touch $@

$(BIN)/peer-flux: test/bench/peers/flux/main.go
$(BIN)/peer-kubectl: test/bench/peers/kubectl/main.go

$(BIN)/peer-%: test/bench/peers/%/go.mod test/bench/peers/%/go.sum
	@echo "building $* to compare with; on two cores this takes some minutes, once"
	cd test/bench/peers/$* && $(BUILD) go build -buildvcs=false -trimpath -ldflags='-s -w' -o $@ $(if $(wildcard test/bench/peers/$*/main.go),.,tool)
	@touch $@

$(GOLANGCI_LINT):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(BIN)/golangci-lint $@
