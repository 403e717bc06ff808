package etcd_test

import (
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
)

// Check reads the prefix as a key. Without its slash the key would not be below the
// prefix, and etcd would refuse it to a user with rights on the prefix alone.
func TestClient_prefix(t *testing.T) {
	for _, configured := range []string{"/lockstep", "/lockstep/"} {
		client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: configured})
		if err != nil {
			t.Fatal(err)
		}
		if got := client.Prefix(); got != "/lockstep/" {
			t.Errorf("%q: got %q", configured, got)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
