package fleet

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Etcd is restored from a snapshot in which this node's record has another release.
// Whatever the sidecar does meanwhile, and whichever revision the restored etcd has,
// the record is soon right again. The sidecars' watches alone would not notice it: a
// watch goes on at a revision of the new history.
func TestRegistrar_restored(t *testing.T) {
	etcdutl := etcdtest.Etcdutl(t)
	tests := []struct {
		name   string
		bump   int64
		cutOff bool
		others int // writes of others before this sidecar reaches etcd again
	}{
		{name: "the revision goes back"},
		{name: "the revision is raised", bump: 1_000_000},
		{name: "cut off meanwhile, and the revision went back", cutOff: true},
		{name: "cut off meanwhile, and the revision was raised", bump: 1_000_000, cutOff: true},
		{name: "cut off meanwhile, and others were faster", cutOff: true, others: 100},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := etcdtest.New(t)
			raw := server.Client(t)
			putNode(t, raw, node(t, "me", "1.0.0")) // what this node ran when the snapshot was made
			file := filepath.Join(t.TempDir(), "snapshot")
			if err := server.Save(t.Context(), file); err != nil {
				t.Fatal(err)
			}

			proxy := etcdtest.NewProxy(t, server.Addr())
			client := newClient(t, "http://"+proxy.Addr())
			r, _ := registrarOf(t, client)
			run(t, func(ctx context.Context) error { return client.KeepChecking(ctx, time.Second) })
			await(t, r.Registration(), "registered as 1.1.0", confirmed)
			check(t, client)

			if test.cutOff {
				proxy.Cut(etcdtest.Reset)
			}
			if err := server.Restore(t.Context(), etcdtest.Restoration{Etcdutl: etcdutl, File: file, Bump: test.bump}); err != nil {
				t.Fatal(err)
			}
			for range test.others {
				put(t, raw, "/elsewhere", nil)
			}
			proxy.Restore()
			again := await(t, r.Registration(), "registered again", func(r protocol.Registration) bool {
				return r.Matches && r.Rewinds == 1
			})
			if got := record(t, raw); got.Revision != again.Revision || got.Node.Version.Release != rel(t, "1.1.0") {
				t.Errorf("registered with %+v, and the record is %+v", again, got)
			}
			if got := client.Rewound().Get(); got != 1 {
				t.Errorf("counted %d times that the store went back, want once", got)
			}
		})
	}
}

// A lease that ended may have ended with the store that knew it. So a new presence
// makes the sidecar check its record at once, however long the next check is off.
func TestRegistrar_checksWithNewPresence(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, client)
	first := await(t, r.Registration(), "registered", confirmed)

	server.LoseEvents(keys.Node("me"))
	putNode(t, raw, node(t, "me", "1.0.0"))
	if _, err := raw.Revoke(t.Context(), r.cfg.Presence.Get()); err != nil {
		t.Fatal(err)
	}
	await(t, r.Registration(), "registered again", func(r protocol.Registration) bool {
		return r.Matches && r.Revision > first.Revision
	})
}
