package quorum

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/test/members"
)

// A record of the replacement of the CA that a client overwrote says which key it is, and at which
// revision it was whole. No command goes on without it.
func TestRotation_corrupt(t *testing.T) {
	c := members.New(t)
	client, key := c.First.Client(), keyspace.Under(members.Prefix).Rotation()
	if already, err := StartRotation(t.Context(), client); err != nil || already {
		t.Fatalf("got %t, %v", already, err)
	}
	before, err := ReadRotation(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	putValue(t, client, key, []byte("garbage"))
	resp, err := client.Get(t.Context(), key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("got %v, %v", resp, err)
	}
	corrupted := resp.Kvs[0].ModRevision
	_, listErr := List(t.Context(), client)
	_, readErr := ReadRotation(t.Context(), client)
	_, startErr := StartRotation(t.Context(), client)
	for what, err := range map[string]error{"list": listErr, "read": readErr, "start": startErr} {
		if !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%s: got %v", what, err)
			continue
		}
		for _, remedy := range []string{fmt.Sprintf("etcdctl get %s --rev=%d", key, corrupted-1), "etcdctl del " + key, "docs/clusters.md#replace-the-ca"} {
			if !strings.Contains(err.Error(), remedy) {
				t.Errorf("%s: got %v, want %q in it", what, err, remedy)
			}
		}
		if corrupted-1 < before.Revision {
			t.Errorf("%s: the record was whole at %d, and the remedy names %d", what, before.Revision, corrupted-1)
		}
	}
	putValue(t, client, key, record.EncodeRotation(before)) // as the remedy says
	if now, err := ReadRotation(t.Context(), client); err != nil || now.Phase != before.Phase {
		t.Errorf("got %+v, %v", now, err)
	}
}
