package etcd_test

import (
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

func TestClient_rewound(t *testing.T) {
	server := etcdtest.New(t)
	for range 10 {
		if _, err := server.Client(t).Put(t.Context(), "/x", ""); err != nil {
			t.Fatal(err)
		}
	}
	client := newClient(t, server.Endpoints()[0])
	listed := follow(t, client, "/p/")
	before := await(t, listed, func(l etcd.Listing) bool { return l.Revision != 0 }).At
	server.Replace(t, etcdtest.Config{})
	go func() { // what a session does after a gap
		for t.Context().Err() == nil && client.Rewound().Get() == 0 {
			_ = client.Check(t.Context())
		}
	}()
	await(t, client.Rewound(), func(n int) bool { return n == 1 })
	after := await(t, listed, func(l etcd.Listing) bool { return l.Rewinds == 1 }).At
	if after.Revision >= before.Revision || !before.Before(after) || after.Before(before) {
		t.Errorf("got %+v after %+v", after, before)
	}
	if rev := client.Contact().Get().Revision; rev >= before.Revision {
		t.Errorf("the contact has revision %d", rev)
	}
}
