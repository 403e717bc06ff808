package etcd_test

import (
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

func TestKnownFault(t *testing.T) {
	for version, faulty := range map[string]bool{
		"3.4.40": true, "3.5.0": true, "3.5.27": true, "3.5.28": false, "3.5.30": false,
		"3.6.0": true, "3.6.8": true, "3.6.9": false, "3.7.0": false, "4.0.0": false, "3.6.0-rc.1": true, "what": true,
		"3.5.28-vendor.1": false, "3.6.9-vendor.1": false, "3.6.8-vendor.1": true,
	} {
		if got := etcd.KnownFault(version) != ""; got != faulty {
			t.Errorf("%s: got %t", version, got)
		}
	}
}

// The alarm of a full database is found without a write.
func TestClient_Full(t *testing.T) {
	server := etcdtest.New(t)
	c, err := etcd.NewClient(etcd.Config{Endpoints: server.Endpoints(), Prefix: "/lockstep/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if c.Full(t.Context()) {
		t.Error("it is full before the alarm")
	}
	empty := etcdtest.Fill(t, etcdtest.Dial(t, server.Endpoints()...))
	if !c.Full(t.Context()) {
		t.Error("it is not full after the alarm")
	}
	empty()
	if c.Full(t.Context()) {
		t.Error("it is full after the alarm was cleared")
	}
}
