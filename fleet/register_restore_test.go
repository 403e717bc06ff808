package fleet

import (
	"os"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// An etcd is restored from a backup without this node's record: the sidecar registers
// again.
func TestRegistrar_restoredEtcd(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	for range 20 {
		put(t, raw, "/filler", nil)
	}
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, client)
	first := await(t, r.Registration(), "the first registration", confirmed)

	server.Replace(t, etcdtest.Config{}) // its revision is far below
	check(t, client)
	await(t, r.Registration(), "registered in the new store", func(r protocol.Registration) bool {
		return r.Matches && r.Revision < first.Revision
	})
}

// An etcd is restored from a backup that has this node's unchanged record. The
// sidecar registers again only because the store went back. It must: the backup
// has nothing that was written later, so the gate must not depend on that.
func TestRegistrar_restoredWithItsRecord(t *testing.T) {
	data, backup := t.TempDir(), t.TempDir()+"/backup"
	server, err := etcdtest.Start(etcdtest.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, client)
	first := await(t, r.Registration(), "the first registration", confirmed)

	server.Stop()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	raw := server.Client(t)
	var newest int64
	for range 50 {
		newest = put(t, raw, "/elsewhere", nil)
	}
	check(t, client)
	await(t, client.Contact(), "knows how far the store was", func(c etcd.Contact) bool { return c.Revision >= newest })
	if got := r.Registration().Get(); got != first {
		t.Fatalf("registered again before the restore: %+v, then %+v", first, got)
	}

	server.Replace(t, etcdtest.Config{Dir: backup})
	check(t, client)
	await(t, r.Registration(), "registered again", func(r protocol.Registration) bool {
		return r.Matches && r.Revision != first.Revision
	})
}
