package datadir

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/test/smalldisk"
)

const address = "127.0.0.1"

// expected contains the flags of the node of newMember.
var expected = Expected{Node: "a", Address: address, PeerPort: 8089, ClientPort: 8088}

func TestMain(m *testing.M) {
	wal.SegmentSizeBytes = 1 << 16 // the tests write no entries
	os.Exit(m.Run())
}

// newMember makes the directory of a member that worked.
func newMember(t *testing.T) (Layout, Marker) {
	t.Helper()
	l := Layout(filepath.Join(t.TempDir(), "data"))
	d := mustOpen(t, string(l))
	must(t, MakeDir(l.PKI()))
	ca, err := pki.EnsureCA(l.PKI(), "c")
	must(t, err)
	_, err = pki.EnsureCertificate(l.PKI(), ca, "a", address)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(l.Database()), 0o700))
	must(t, os.WriteFile(l.Database(), []byte("a database"), 0o600))
	writeLog(t, l.wal(), 0xc1, 0xa1)
	m := Marker{
		Cluster: "c", CAHash: ca.Hash().String(), Node: "a", Address: address, PeerPort: 8089, ClientPort: 8088, JoinPort: 8087,
		Intent: Create, Phase: Member, EtcdClusterID: "c1", MemberID: "a1",
	}
	must(t, d.WriteMarker(m))
	must(t, d.Close())
	m.Version = firstVersion
	return l, m
}

func writeLog(t *testing.T, dir string, cluster, member uint64) {
	t.Helper()
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{ClusterID: new(cluster), NodeID: new(member)})
	must(t, err)
	w, err := wal.Create(zap.NewNop(), dir, metadata)
	must(t, err)
	must(t, w.Close())
}

func mustOpen(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	must(t, err)
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents returns the mode and the content of each file.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s %d", path, info.Mode(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sha256.Sum256(text))
		}
		out = append(out, line)
		return nil
	}))
	return out
}

// examine checks a directory that exists as a sidecar does.
func examine(path string, want Expected) error {
	d, err := Open(path)
	if err != nil {
		return err
	}
	m, err := d.ReadMarker()
	if err == nil {
		err = d.Check(m, want)
	}
	return errors.Join(err, d.Close())
}

func TestCheck_accepts(t *testing.T) {
	l, m := newMember(t)
	must(t, examine(string(l), expected))
	must(t, examine(string(l), Expected{Node: "a"}))
	got, err := l.ReadMarker()
	if err != nil || got != m {
		t.Errorf("got %+v, %v, want %+v", got, err, m)
	}
	if !l.EtcdBegun() {
		t.Error("the log of etcd is not found")
	}
	for _, harmless := range []string{"lost+found", membersFile, markerFile + durable.TempSuffix} {
		must(t, os.WriteFile(filepath.Join(string(l), harmless), nil, 0o600))
		must(t, examine(string(l), expected))
	}
}

// Each refusal names the problem and the remedy, and changes nothing.
func TestCheck_refuses(t *testing.T) {
	remove := func(path func(Layout) string) func(*testing.T, Layout, *Expected) {
		return func(t *testing.T, l Layout, _ *Expected) { must(t, os.RemoveAll(path(l))) }
	}
	chmod := func(path func(Layout) string, mode fs.FileMode) func(*testing.T, Layout, *Expected) {
		return func(t *testing.T, l Layout, _ *Expected) { must(t, os.Chmod(path(l), mode)) }
	}
	flags := func(change func(*Expected)) func(*testing.T, Layout, *Expected) {
		return func(_ *testing.T, _ Layout, e *Expected) { change(e) }
	}
	otherPKI := func(t *testing.T, node, ip string, files ...string) func(Layout) {
		dir := t.TempDir()
		ca, err := pki.EnsureCA(dir, "other")
		must(t, err)
		_, err = pki.EnsureCertificate(dir, ca, node, ip)
		must(t, err)
		return func(l Layout) {
			for _, name := range files {
				text, err := os.ReadFile(filepath.Join(dir, name))
				must(t, err)
				must(t, os.WriteFile(filepath.Join(l.PKI(), name), text, 0o600))
			}
		}
	}
	top := func(l Layout) string { return string(l) }
	for name, tc := range map[string]struct {
		change func(*testing.T, Layout, *Expected)
		want   []string
	}{
		"another node":        {flags(func(e *Expected) { e.Node = "b" }), []string{`is that of node "a", and this sidecar is node "b"`, "--node-id=a"}},
		"another address":     {flags(func(e *Expected) { e.Address = "127.0.0.9" }), []string{"--node-address is 127.0.0.9", "start it with --node-address=127.0.0.1"}},
		"another peer port":   {flags(func(e *Expected) { e.PeerPort = 1 }), []string{"start it with --peer-port=8089"}},
		"another client port": {flags(func(e *Expected) { e.ClientPort = 1 }), []string{"start it with --client-port=8088"}},
		"no marker":           {remove(Layout.Marker), []string{"has no cluster.json, but has etcd, pki", "`sidecar cluster members --data-dir=", "`sidecar cluster token create --data-dir=", "docs/clusters.md#replace-a-node"}},
		"no CA":               {remove(Layout.CACert), []string{"ca.crt", "is missing: restore it from a backup"}},
		"no certificate":      {remove(Layout.NodeCert), []string{"node.crt", "is missing: restore it from a backup"}},
		"no key":              {remove(Layout.NodeKey), []string{"node.key", "is missing: restore it from a backup"}},
		"no pki":              {remove(Layout.PKI), []string{"is missing: restore it from a backup"}},
		"no database":         {remove(Layout.Database), []string{"is missing or empty", "`sidecar cluster remove a1 --data-dir=", "`sidecar cluster token create --node a --data-dir=", "`mv ", ".old`, then what `token create` printed"}},
		"no log":              {remove(Layout.wal), []string{"has no log of etcd", "sidecar cluster remove a1"}},
		"no etcd":             {remove(Layout.Etcd), []string{"is missing or empty", "sidecar cluster remove a1"}},
		"open to the group":   {chmod(top, 0o750), []string{"has the mode 0750", "chmod 700"}},
		"an open pki":         {chmod(Layout.PKI, 0o755), []string{"has the mode 0755", "chmod 700"}},
		"an open etcd":        {chmod(Layout.Etcd, 0o701), []string{"has the mode 0701", "chmod 700"}},
		"an open key":         {chmod(Layout.NodeKey, 0o640), []string{"has the mode 0640", "chmod 600"}},
		"an open key of a CA": {chmod(Layout.CAKey, 0o604), []string{"has the mode 0604", "chmod 600"}},
		"an open next key": {func(t *testing.T, l Layout, _ *Expected) {
			_, err := pki.NewNext(l.PKI(), "c")
			must(t, err)
			must(t, os.Chmod(l.NextKey(), 0o640))
		}, []string{"has the mode 0640", "chmod 600"}},
		"a CA anyone changes": {chmod(Layout.CACert, 0o666), []string{"has the mode 0666", "chmod 644"}},
		"a marker of anyone":  {chmod(Layout.Marker, 0o622), []string{"has the mode 0622", "chmod 600"}},
		"a damaged log":       {func(t *testing.T, l Layout, _ *Expected) { damage(t, l) }, []string{"has a damaged log of etcd", "sidecar cluster remove a1"}},
		"a gap in the log": {func(t *testing.T, l Layout, _ *Expected) {
			must(t, os.WriteFile(filepath.Join(l.wal(), "0000000000000002-0000000000000009.wal"), nil, 0o600))
		}, []string{"has a gap before 0000000000000002-0000000000000009.wal"}},
		"the log of another": {func(t *testing.T, l Layout, _ *Expected) {
			must(t, os.RemoveAll(l.wal()))
			writeLog(t, l.wal(), 0xc1, 0xb1)
		}, []string{"is of the etcd member b1, and cluster.json of a1"}},
		"another etcd cluster": {func(t *testing.T, l Layout, _ *Expected) {
			must(t, os.RemoveAll(l.wal()))
			writeLog(t, l.wal(), 0xc2, 0xa1)
		}, []string{"is of the etcd cluster c2, and cluster.json of c1"}},
		"a damaged marker": {func(t *testing.T, l Layout, _ *Expected) { must(t, os.WriteFile(l.Marker(), []byte("{"), 0o600)) }, []string{"cluster.json", "is damaged"}},
		"a newer marker": {func(t *testing.T, l Layout, _ *Expected) {
			must(t, os.WriteFile(l.Marker(), []byte(`{"version": 3}`), 0o600))
		}, []string{"has version 3", "start the newer sidecar"}},
		"a damaged CA":        {func(t *testing.T, l Layout, _ *Expected) { must(t, os.WriteFile(l.CACert(), nil, 0o600)) }, []string{"has no PEM certificate"}},
		"the CA of another":   {func(t *testing.T, l Layout, _ *Expected) { otherPKI(t, "a", address, "ca.crt", "ca.key")(l) }, []string{"is the CA of another cluster"}},
		"a stranger's cert":   {func(t *testing.T, l Layout, _ *Expected) { otherPKI(t, "a", address, "node.crt")(l) }, []string{"was not issued by the CA"}},
		"a key of another":    {func(t *testing.T, l Layout, _ *Expected) { otherPKI(t, "a", address, "node.key")(l) }, []string{"is not the key of"}},
		"a CA key of another": {func(t *testing.T, l Layout, _ *Expected) { otherPKI(t, "a", address, "ca.key")(l) }, []string{"is not the key of"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newMember(t)
			want := expected
			tc.change(t, l, &want)
			wantRefusal(t, l, want, tc.want...)
		})
	}
}

// The commands work also if people end the directory with a slash.
func TestLayout_ReplaceNode_slash(t *testing.T) {
	const want = "type `mv /data/x /data/x.old`, then what `token create` printed"
	for _, dir := range []Layout{"/data/x", "/data/x/"} {
		if got := dir.ReplaceNode(Marker{Node: "a"}); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	if got, want := Layout("/my data/").ReplaceNode(Marker{}), "`mv '/my data' '/my data.old'`"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

// A node that never voted holds no key of the CA.
func TestCheck_noKeyOfTheCA(t *testing.T) {
	l, _ := newMember(t)
	must(t, os.Remove(l.CAKey()))
	must(t, examine(string(l), expected))
}

// While the CA is replaced, the node trusts two, and holds the key and a certificate of one of them.
func TestCheck_replacedCA(t *testing.T) {
	l, _ := newMember(t)
	old, err := pki.LoadCA(l.PKI())
	must(t, err)
	next, err := pki.NewNext(l.PKI(), "c")
	must(t, err)
	for _, all := range [][]*x509.Certificate{{old.Certificate(), next.Certificate()}, {next.Certificate(), old.Certificate()}} {
		must(t, pki.WriteTrusted(l.PKI(), all))
		must(t, examine(string(l), expected))
	}
	must(t, pki.AdoptNextKey(l.PKI()))
	must(t, examine(string(l), expected))
	must(t, pki.WriteTrusted(l.PKI(), []*x509.Certificate{next.Certificate()}))
	wantRefusal(t, l, expected, "is the CA of another cluster")
}

// A member that is added or leaves may vote, so its log and its database are checked like those
// of one that works. Before etcd begins, there is nothing to check.
func TestCheck_changing(t *testing.T) {
	for _, phase := range []Phase{Adding, Leaving} {
		for name, tc := range map[string]struct {
			change func(*testing.T, Layout)
			want   string // empty: it is accepted
		}{
			"as it was":   {func(*testing.T, Layout) {}, ""},
			"no database": {func(t *testing.T, l Layout) { must(t, os.Remove(l.Database())) }, "is missing or empty"},
			"no log":      {func(t *testing.T, l Layout) { must(t, os.RemoveAll(l.wal())) }, ""},
			"the log of another member": {func(t *testing.T, l Layout) {
				must(t, os.RemoveAll(l.wal()))
				writeLog(t, l.wal(), 0xc1, 0xb1)
			}, "is of the etcd member b1, and cluster.json of a1"},
			"the log of another cluster": {func(t *testing.T, l Layout) {
				must(t, os.RemoveAll(l.wal()))
				writeLog(t, l.wal(), 0xc2, 0xa1)
			}, "is of the etcd cluster c2, and cluster.json of c1"},
		} {
			t.Run(string(phase)+"/"+name, func(t *testing.T) {
				l, m := newMember(t)
				m.Phase = phase
				d := mustOpen(t, string(l))
				must(t, errors.Join(d.WriteMarker(m), d.Close()))
				tc.change(t, l)
				if tc.want == "" {
					must(t, examine(string(l), expected))
					return
				}
				wantRefusal(t, l, expected, tc.want, "sidecar cluster remove a1")
			})
		}
	}
}

func damage(t *testing.T, l Layout) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(l.wal(), "*.wal"))
	must(t, err)
	f, err := os.OpenFile(segments[0], os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("damaged"), 28)
	must(t, errors.Join(err, f.Close()))
}

func wantRefusal(t *testing.T, l Layout, flags Expected, texts ...string) {
	t.Helper()
	before := contents(t, string(l))
	err := examine(string(l), flags)
	refused, is := errors.AsType[*RefusedError](err)
	if !is || refused.Remedy == "" || !strings.Contains(refused.Error(), string(l)) {
		t.Fatalf("got %v", err)
	}
	for _, text := range texts {
		if !strings.Contains(refused.Error(), text) {
			t.Errorf("got  %v\nwant %s", refused, text)
		}
	}
	if after := contents(t, string(l)); !slices.Equal(before, after) {
		t.Errorf("the directory was changed:\nbefore %v\nafter  %v", before, after)
	}
}

func TestCheck_removed(t *testing.T) {
	l, m := newMember(t)
	d := mustOpen(t, string(l))
	m.Phase = Removed
	must(t, errors.Join(d.WriteMarker(m), d.Close()))
	wantRefusal(t, l, expected, "was removed from its cluster (c)", "start with a new token")
}

func TestOpen(t *testing.T) {
	t.Run("makes a missing directory for its user only", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "new", "data")
		d := mustOpen(t, path)
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("got the mode %o", info.Mode().Perm())
		}
		if _, err := d.ReadMarker(); !errors.Is(err, ErrNoMarker) {
			t.Errorf("got %v", err)
		}
		must(t, d.Close())
	})
	t.Run("refuses what is not Lockstep's", func(t *testing.T) {
		l := Layout(t.TempDir())
		for _, name := range []string{"a", "b", "c", "d"} {
			must(t, os.WriteFile(filepath.Join(string(l), name), nil, 0o600))
		}
		wantRefusal(t, l, expected, "has files that are not of Lockstep: a, b, c and 1 more", "give --data-dir an empty directory")
	})
	t.Run("refuses a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, nil, 0o600))
		wantRefusal(t, Layout(path), expected, "is a file", "give --data-dir a directory")
	})
	t.Run("locks", func(t *testing.T) {
		l, _ := newMember(t)
		d := mustOpen(t, string(l))
		before := contents(t, string(l))
		_, err := Open(string(l))
		locked, is := errors.AsType[*LockedError](err)
		if !is || locked.PID != 0 && locked.PID != os.Getpid() || !strings.Contains(err.Error(), string(l)) {
			t.Errorf("got %v", err)
		}
		if after := contents(t, string(l)); !slices.Equal(before, after) {
			t.Error("the directory was changed")
		}
		if pid := l.Holder(); pid != locked.PID {
			t.Errorf("the holder is %d, and the error says %d", pid, locked.PID)
		}
		must(t, d.Close())
		if pid := l.Holder(); pid != 0 {
			t.Errorf("%d holds it after it was closed", pid)
		}
		must(t, mustOpen(t, string(l)).Close())
	})
}

// A disk that is too small for a member is refused before anything is written; a
// full one keeps its marker.
func TestFullDisk(t *testing.T) {
	if !smalldisk.Enter(t) {
		return
	}
	mount := smalldisk.Mount(t, 1<<20)
	for _, l := range []Layout{Layout(mount), Layout(filepath.Join(mount, "lib", "data"))} {
		before := contents(t, mount)
		_, err := Open(string(l))
		refused, is := errors.AsType[*RefusedError](err)
		if !is || !strings.Contains(refused.Error(), "MiB free, and a member needs 256 MiB") || refused.Path != string(l) {
			t.Errorf("got %v", err)
		}
		if after := contents(t, mount); !slices.Equal(before, after) {
			t.Errorf("got %v, before %v", after, before)
		}
	}
	data := Layout(filepath.Join(mount, "data"))
	must(t, MakeDir(string(data)))
	marker := []byte(`{"version":1,"cluster":"c","node":"a","address":"127.0.0.1","intent":"create","phase":"begun"}`)
	must(t, os.WriteFile(data.Marker(), marker, 0o600))
	smalldisk.Fill(t, mount)
	d := mustOpen(t, string(data))
	m, err := d.ReadMarker()
	must(t, err)
	before := contents(t, string(data))
	m.Phase = Member
	if err := d.WriteMarker(m); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	// The time of the directory itself may differ.
	if after := contents(t, string(data)); !slices.Equal(before[1:], after[1:]) {
		t.Errorf("got %v, before %v", after, before)
	}
	must(t, d.Close())
}

// A service manager makes the directory with its own mode. The next start refuses one
// that others may read, so the first start closes it.
func TestOpen_emptyDirectoryOfOthers(t *testing.T) {
	path := t.TempDir()
	must(t, os.Chmod(path, 0o755))
	must(t, mustOpen(t, path).Close())
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != dirMode {
		t.Errorf("got the mode %o, want %o", got, dirMode)
	}
}

// The directory of another user, or in a directory that every user can change, is refused before
// a key is written there.
func TestLock_openToOthers(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		d, err := Lock(dir)
		if err == nil {
			_ = d.Close()
		}
		if _, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := os.Chmod(parent, 0o777); err != nil {
		t.Fatal(err)
	}
	refused(`"` + parent + `" can be changed by every user (mode 0777): if no other user has, type: chmod o-w ` + parent)
	if os.Geteuid() != 0 {
		return // only root can give it to another user
	}
	if err := errors.Join(os.Chmod(parent, 0o755), os.Chown(dir, 4711, 0)); err != nil {
		t.Fatal(err)
	}
	refused("belongs to the user with the ID 4711, who can change it: if no other user has, type: chown -R 0 " + dir)
}

// A directory whose node did not join yet can be deleted: no cluster knows the node. So a
// flag that was wrong at the first start does not stay.
func TestCheck_notJoined(t *testing.T) {
	l := Layout(t.TempDir())
	must(t, os.Chmod(string(l), dirMode))
	m := Marker{Node: "b", Address: "127.0.0.1", PeerPort: 8089, ClientPort: 8088, Intent: Join, Phase: Begun}
	for want, e := range map[string]Expected{
		"start it with --node-address=127.0.0.1, or delete the directory": {Node: "b", Address: "127.0.0.9"},
		"start it with --node-id=b, or delete the directory":              {Node: "c", Address: "127.0.0.1"},
	} {
		if err := l.Check(m, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	m.Phase = Enrolled
	if err := l.Check(m, Expected{Node: "b", Address: "127.0.0.9"}); err == nil || !strings.Contains(err.Error(), "replace-a-node") {
		t.Errorf("when the cluster may have added it: got %v", err)
	}
}
