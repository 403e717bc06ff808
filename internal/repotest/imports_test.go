package repotest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// levels says who may import whom: a package imports only packages of ours with
// a lower level, so siblings do not know each other. A new package needs a line
// here: its level is a decision.
var levels = map[string]int{
	"cmd/sidecar":                      17,
	"cmd/sidecar/internal/terminal":    0,  // lays out text for people
	"cmd/sidecar/internal/console":     4,  // what every command shares
	"cmd/sidecar/internal/runflags":    13, // the flags of sidecar run, for Options
	"cmd/sidecar/internal/reach":       14, // leads commands to a sidecar and to etcd
	"cmd/sidecar/internal/views":       16, // shows, and changes nothing; above its siblings, since support shows what kubeadmnode checks
	"cmd/sidecar/internal/nodes":       15, // changes nodes of a fleet
	"cmd/sidecar/internal/clusters":    15, // shows and changes the members of etcd
	"cmd/sidecar/internal/bundles":     15, // validates, compares and plans
	"cmd/sidecar/internal/kubeadmnode": 15, // prepares and checks a node of kubeadm
	"cmd/sidecar/internal/table":       2,  // prints a report
	"cmd/etcd-member":                  5,  // what the sidecar has inside, compressed
	"build/pack":                       0,  // compresses it
	"build/image":                      0,  // a module of its own

	".": 12, // what a program embeds: options in, a running sidecar out

	"internal/app":        11, // wires everything
	"internal/show":       10, // what is shown to people and other nodes
	"internal/apiserver":  9,  // follows this node's kube-apiserver
	"internal/etcdhealth": 9,  // what is wrong with etcd, for people
	"internal/variables":  9,  // what services learn of their node
	"internal/kubeaccess": 10, // what the commands read through a kubeconfig

	"election":      9,
	"internal/role": 9, // what a node runs follows from its roles
	"httpapi":       8,
	"reconcile":     9,

	// The rooms of reconcile. The two lowest are pure, and so is plan.
	"reconcile/rights":             7, // what the leader may have to do with a bundle, as roles of RBAC
	"reconcile/internal/drift":     8,
	"reconcile/internal/preview":   8,
	"reconcile/internal/exec":      7,
	"reconcile/internal/plan":      6,
	"reconcile/internal/applyset":  5,
	"reconcile/internal/ownership": 5,

	"fleet":            4,
	"status":           4,
	"reconcile/bundle": 4,
	"report":           0, // plain values that their owners fill in and httpapi shows

	"internal/cluster":          8, // brings the sidecar into its etcd cluster, with the packages below it
	"internal/cluster/datadir":  3,
	"internal/cluster/token":    4, // how nodes are allowed to join
	"internal/cluster/quorum":   5, // changes the members
	"internal/cluster/enrol":    6, // both sides of a join
	"internal/cluster/rotation": 6, // replaces the CA
	"internal/cluster/record":   3, // the values below cluster/ in etcd

	"etcd":               3,
	"internal/endpoints": 5, // writes the Service kubernetes
	// The requests to an API server that reconcile makes, apart from it because
	// they are machinery. It replaces client-go's dynamic client.
	"internal/kube":       3,
	"internal/kubeconfig": 4, // follows kubeconfigs

	"httpapi/reviews": 1, // asks the kube-apiserver who may read the HTTP API

	"keyspace":            2, // has the node IDs of protocol in its keys
	"internal/lockstepv1": 2, // converts to and from the values of protocol
	"internal/model":      4, // a world around protocol
	"history":             2, // what happened between two snapshots of facts, pure
	"internal/journal":    4, // keeps it in etcd
	"internal/turns":      5, // takes and ends the turns of this node
	"internal/events":     4, // shows what happened in the API
	"trace":               3, // what the shells report to tests, checked by protocol
	"internal/semver":     2, // parses the versions of protocol
	"internal/rollout":    3, // simulates with the decisions of protocol

	"internal/cluster/backup":       6, // snapshots, and a cluster made of one
	"internal/cluster/members":      4, // the list of the members, and the endpoints of the client
	"internal/cluster/pki":          2,
	"internal/cluster/member":       2,
	"internal/cluster/member/child": 4, // the one package in which etcd's server runs
	"internal/cluster/member/ports": 3, // its listeners
	// What that answers while it stops, for tests that run one too.
	"internal/cluster/member/stopguard": 1,

	"internal/child":      0, // starts and stops the processes of members and services
	"internal/clockshift": 0, // shifts the clock of a sidecar that tests build

	"internal/role/service":           6, // what a node runs for its roles, with the packages below it
	"internal/role/service/process":   3,
	"internal/role/service/systemd":   3,
	"internal/role/service/staticpod": 3,
	"internal/role/service/readiness": 2,
	"internal/role/service/driver":    1,

	"deploy":           0, // files for others
	"internal/kubeadm": 3, // contents, and decisions about facts

	"internal/backoff":      1,
	"internal/checks":       1, // reads what health endpoints answer
	"internal/supervise":    2, // keeps workers running
	"internal/buildinfo":    1,
	"internal/allowance":    1, // what clients without an identity may use of a processor
	"internal/cputime":      1,
	"internal/durable":      1,
	"internal/support":      1, // collects and packs what others find
	"internal/packed":       2, // starts a program that is inside this one
	"internal/trusted":      1,
	"internal/metric":       0, // makes the metrics of all others
	"internal/nodeaddress":  0,
	"internal/sorting":      0,
	"event":                 1,
	"protocol":              0,
	"protocol/warn":         1, // what people are warned of
	"protocol/upgrade":      2, // whether the next upgrade may start
	"protocol/noderecord":   2, // when a node's record is written and deleted
	"protocol/publish":      1, // what goes into the Service kubernetes
	"protocol/membership":   1, // who is a member of etcd
	"protocol/nodeservices": 2, // when a node's services start and stop
	"protocol/nodeturns":    1, // who works on a node while the others serve
	"internal/strict":       1, // reads the files that people write
	"internal/certificates": 5, // when certificates expire
	"internal/machine":      0,
	"internal/shell":        0, // quotes commands for people
}

// forTests are packages that nothing that ships may import. They may import
// what they like.
func forTests(dir string) bool {
	return dir == "internal/etcdtest" || dir == "internal/repotest" || strings.HasPrefix(dir, "test/")
}

func TestPackagesImportOnlyWhatIsBelow(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || forTests(s.dir) {
			continue
		}
		own, known := levels[s.dir]
		if !known {
			t.Errorf("%s: the package has no level: give it one in this test", s.dir)
			continue
		}
		for _, imported := range s.imports {
			dir, ours := dirOf(imported)
			if ours && (forTests(dir) || levels[dir] >= own) {
				t.Errorf("%s imports %s, which is not below it", s.path, dir)
			}
		}
	}
}

// dirOf returns the directory of a package of this module.
func dirOf(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// TestTheCoreIsPure: the protocol, and the simulation around it, have no I/O and no
// clock. fmt alone drags in os, so direct imports are what counts.
func TestTheCoreIsPure(t *testing.T) {
	standard := []string{"cmp", "fmt", "slices", "sort", "strings", "time"}
	below := append(slices.Clone(standard), module+"/protocol")
	warning := append(slices.Clone(below), module+"/protocol/warn")
	pure := map[string][]string{
		"protocol": standard, "protocol/warn": below, "protocol/publish": below, "protocol/membership": below, "protocol/nodeturns": below,
		"protocol/nodeservices": warning, "protocol/noderecord": warning, "protocol/upgrade": append(slices.Clone(warning), module+"/protocol/publish"),
		"internal/rollout": append(slices.Clone(warning), module+"/protocol/upgrade"),
		"history":          append(slices.Clone(warning), "iter", "maps", module+"/report"),
	}
	for _, s := range sources(t) {
		allowed, core := pure[s.dir]
		if !core || s.test {
			continue
		}
		for _, imported := range s.imports {
			if !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %q; this package may import %v", s.path, imported, allowed)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && isSelector(call, "time", "Now", "Since", "Until", "After", "Sleep") {
				t.Errorf("%s asks the clock: time.%s", s.path, call.Sel.Name)
			}
			return true
		})
	}
}

func isSelector(sel *ast.SelectorExpr, pkg string, names ...string) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && slices.Contains(names, sel.Sel.Name)
}

// place is where imports with a prefix are allowed. Test files may import what
// they like.
type place struct {
	prefix  string
	allowed func(source) bool
}

func in(dirs ...string) func(source) bool {
	return func(s source) bool { return slices.Contains(dirs, s.dir) }
}

// within allows a directory and all below it.
func within(dir string) func(source) bool {
	return func(s source) bool { return s.dir == dir || strings.HasPrefix(s.dir, dir+"/") }
}

func notIn(dirs ...string) func(source) bool {
	return func(s source) bool { return !slices.Contains(dirs, s.dir) }
}

func inFile(name string, others ...string) func(source) bool {
	return func(s source) bool {
		return path.Base(s.path) == name || slices.Contains(others, s.path) || in(others...)(s)
	}
}

// places has each dependency where one package hides it from the others.
var places = []place{
	{"go.etcd.io/etcd/client", in("etcd", "status", "fleet", "election", "internal/cluster", "internal/cluster/backup", "internal/cluster/member/child",
		"internal/cluster/token", "internal/cluster/quorum", "internal/cluster/enrol", "internal/journal")},
	{"go.etcd.io/etcd/api", in("etcd", "internal/cluster/backup", "internal/cluster/datadir", "internal/cluster/member/stopguard")},  // backup reads the values in a snapshot
	{"go.etcd.io/etcd/server", in("internal/cluster/member/child", "internal/cluster/member/stopguard", "internal/cluster/datadir")}, // datadir reads the beginning of the log
	{"k8s.io/api/", in()}, // would double the binary: docs/adr/0003
	{"k8s.io/client-go/dynamic", in()},
	{"k8s.io/client-go/discovery", in()},
	{"k8s.io/client-go/kubernetes", in()},
	{"k8s.io/client-go", in("internal/kube", "reconcile", "reconcile/internal/preview", "internal/app", "internal/kubeaccess", "internal/kubeconfig", "internal/apiserver")},
	{"k8s.io/apimachinery", in(".", "etcd", "internal/kube", "internal/endpoints", "reconcile", "reconcile/bundle",
		"reconcile/rights", "reconcile/internal/applyset", "reconcile/internal/ownership", "reconcile/internal/plan",
		"reconcile/internal/exec", "reconcile/internal/drift", "reconcile/internal/preview")},
	{"github.com/go-chi/chi", in("httpapi")},
	{"github.com/spf13", within("cmd/sidecar")},
	{"google.golang.org/protobuf", inFile("codec.go", "internal/lockstepv1")},
	{"golang.org/x/mod", in("internal/semver")},
	{"google.golang.org/grpc", in("etcd", "internal/cluster/member/child", "internal/cluster/member/stopguard")},
	{"go.uber.org/zap", in("etcd", "internal/cluster/member/child")},
	{"go.etcd.io/etcd/etcdutl", in("internal/cluster/member/child")},
	{"go.etcd.io/bbolt", in("internal/cluster/backup", "internal/cluster/member/child")},
	{"github.com/DeRuina/timberjack", in("internal/role/service/process")},
	{"github.com/coreos/go-systemd", in("internal/role/service/systemd", "test/roles")},
	{"github.com/godbus/dbus", in("internal/role/service/systemd", "test/roles")},
	{"log/slog", notIn("protocol", "protocol/upgrade", "protocol/noderecord", "protocol/publish", "protocol/warn", "protocol/membership", "protocol/nodeservices", "protocol/nodeturns", "event", "internal/lockstepv1", "internal/kube", "internal/model")},
	{module + "/event", notIn("internal/model")}, // protocol only
}

func TestDependenciesStayWhereTheyBelong(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || forTests(s.dir) {
			continue
		}
		for _, p := range places {
			for _, imported := range s.imports {
				if strings.HasPrefix(imported, p.prefix) && !p.allowed(s) {
					t.Errorf("%s imports %s, which does not belong there", s.path, imported)
				}
			}
		}
	}
}

// TestTheLibrarysElectionIsOnlyTested: no use of it is safe (docs/upstream.md#etcd-election).
// Tests of upstream show what is wrong with it, and benchmarks measure beside it.
func TestTheLibrarysElectionIsOnlyTested(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir != "test/upstream" && s.dir != "test/bench" && slices.Contains(s.imports, "go.etcd.io/etcd/client/v3/concurrency") {
			t.Errorf("%s imports the etcd client's concurrency package", s.path)
		}
	}
}

// TestMetricsAreMadeInOnePlace: metrics.go of each package makes its metrics;
// a Config may name prometheus.Registerer, and nothing else of that package.
func TestMetricsAreMadeInOnePlace(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || path.Base(s.path) == "metrics.go" || s.dir == "internal/app" || s.dir == "internal/show" || forTests(s.dir) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if x, isIdent := identOf(sel, ok); isIdent && x == "prometheus" && sel.Sel.Name != "Registerer" {
				t.Errorf("%s uses prometheus.%s: that belongs into metrics.go", s.path, sel.Sel.Name)
			}
			return true
		})
	}
}

func identOf(sel *ast.SelectorExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	x, isIdent := sel.X.(*ast.Ident)
	if !isIdent {
		return "", false
	}
	return x.Name, true
}
