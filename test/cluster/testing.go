package cluster

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// assetsVariable names the directory of the binaries.
const assetsVariable = "LOCKSTEP_E2E_ASSETS"

// Assets returns the directory of the binaries. It skips the test loudly if
// LOCKSTEP_E2E_ASSETS is not set, and fails it if a binary is missing.
func Assets(t testing.TB, binaries ...string) string {
	t.Helper()
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		t.Skipf("SKIPPED, NOT TESTED: needs real %s; run `make test`, or build them and set %s to their directory",
			strings.Join(binaries, " and "), assetsVariable)
	}
	for _, binary := range binaries {
		if _, err := os.Stat(filepath.Join(dir, binary)); err != nil {
			t.Fatalf("%s: %v; `make bin/%s` builds it", assetsVariable, err, binary)
		}
	}
	return dir
}

// NewForTest returns a cluster that ends with the test. If the test fails, it shows
// the end of each log.
func NewForTest(t testing.TB, binaries ...string) *Cluster {
	t.Helper()
	if len(binaries) == 0 {
		binaries = []string{"kube-apiserver", "sidecar"}
	}
	return NewWithMembersForTest(t, 0, binaries...)
}

// NewWithMembersForTest does the same, with this many etcd members as processes.
func NewWithMembersForTest(t testing.TB, members int, binaries ...string) *Cluster {
	t.Helper()
	return newForTest(t, Config{Assets: Assets(t, binaries...), Members: members})
}

// NewAtForTest does the same, for kube-apiservers that serve at these addresses.
func NewAtForTest(t testing.TB, addresses []net.IP, binaries ...string) *Cluster {
	t.Helper()
	return newForTest(t, Config{Assets: Assets(t, binaries...), Addresses: addresses})
}

// NewTracingForTest is NewWithMembersForTest, with sidecars whose traces must be valid at the
// end (docs/model.md#traces).
func NewTracingForTest(t testing.TB, members int, binaries ...string) *Cluster {
	t.Helper()
	return newTracing(t, Config{Assets: Assets(t, binaries...), Members: members})
}

// NewTracingAtForTest does the same without an etcd, for kube-apiservers that serve at
// these addresses.
func NewTracingAtForTest(t testing.TB, addresses []net.IP, binaries ...string) *Cluster {
	t.Helper()
	return newTracing(t, Config{Assets: Assets(t, binaries...), WithoutEtcd: true, Addresses: addresses})
}

func newTracing(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	cfg.TraceDir, cfg.SidecarBinary = filepath.Join(t.ArtifactDir(), "traces"), BuildTracing(t)
	t.Cleanup(func() { validateTraces(t, cfg.TraceDir, cfg.SidecarBinary) })
	return newForTest(t, cfg)
}

func newForTest(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	cfg.Dir, cfg.LogDir = t.TempDir(), t.ArtifactDir()
	if members := cfg.Members; members > 0 {
		cfg.MemberBinary = BuildMember(t)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseForTest(t, c) })
	return c
}

// NewMembersForTest starts an etcd of three members as processes, and nothing else.
// It needs no binaries.
func NewMembersForTest(t testing.TB) []*Member {
	t.Helper()
	dir := t.TempDir()
	c, err := New(Config{Assets: dir, Dir: dir, LogDir: t.ArtifactDir(), Members: 3, MemberBinary: BuildMember(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseForTest(t, c) })
	return c.Members
}

// Isolate cuts a member off from all others, in both directions, until the returned
// function is called. Clients still reach it.
func (m *Member) Isolate() (restore func()) {
	var ways []*etcdtest.Proxy
	for _, other := range m.cluster.Members {
		if other != m {
			ways = append(ways, m.Way(other), other.Way(m))
		}
	}
	for _, way := range ways {
		way.Cut(etcdtest.Blackhole)
	}
	return func() {
		for _, way := range ways {
			way.Restore()
		}
	}
}

// CloseForTest ends a cluster. If the test failed, it logs the output of the parts.
func CloseForTest(t testing.TB, c *Cluster) {
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if !t.Failed() {
		return
	}
	var logs strings.Builder
	if err := c.WriteLogs(&logs); err != nil {
		t.Error(err)
	}
	t.Log(logs.String())
}

// NewAPIServer starts an etcd and a kube-apiserver that end with the test. It skips
// the test loudly if there are no binaries.
func NewAPIServer(t testing.TB) *APIServer {
	t.Helper()
	a, err := NewForTest(t, "kube-apiserver").StartAPIServer(APIServerConfig{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Shared is one kube-apiserver for all tests of a package. The first test that calls
// Get starts it. Each test must use its own objects and its own etcd prefix. The
// zero value is ready for use:
//
//	var api cluster.Shared
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		api.Close()
//		os.Exit(code)
//	}
//
//	func TestApply(t *testing.T) { client := newClient(t, api.Get(t)) ... }
type Shared struct {
	mu     sync.Mutex // mu guards server and dir; held while it starts and stops
	server *APIServer
	dir    string
}

// Get returns the server. It skips the test loudly if there are no binaries.
func (s *Shared) Get(t testing.TB) *APIServer {
	t.Helper()
	assets := Assets(t, "kube-apiserver")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		s.start(t, assets)
	}
	return s.server
}

// start needs mu.
func (s *Shared) start(t testing.TB, assets string) {
	t.Helper()
	var err error
	if s.dir, err = os.MkdirTemp("", "lockstep-test-"); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Assets: assets, Dir: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	if s.server, err = c.StartAPIServer(APIServerConfig{Name: "shared"}); err != nil {
		s.server = nil
		t.Error(c.Close())
		t.Fatal(err)
	}
}

// Close stops the server if one was started. It panics if that fails.
func (s *Shared) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return
	}
	if err := s.server.Cluster.Close(); err != nil {
		panic(err)
	}
	s.server = nil
	if err := os.RemoveAll(s.dir); err != nil {
		panic(err)
	}
}
