package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

const (
	lostStore  = "5f6c1e0d9a7b43c28f15e6d0b2a49c71"
	otherStore = "00000000000000000000000000000001"
)

// kubeconfigOf returns the kubeconfig of an API server whose parent has the given
// annotations; nil: there is no parent.
func kubeconfigOf(t *testing.T, annotations map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/kube-system/configmaps/lockstep" || annotations == nil {
			http.Error(w, "{}", http.StatusNotFound)
			return
		}
		parent := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "lockstep", "annotations": annotations}}
		if err := json.NewEncoder(w).Encode(parent); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": "` + server.URL + `"}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestStore(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	c := command{T: t, endpoint: server.Endpoints()[0]}
	objects := kubeconfigOf(t, map[string]string{"lockstep.dev/store": lostStore})

	wantShown := func(want string, args ...string) {
		t.Helper()
		if code, stdout, stderr := c.run(append([]string{"store", "show"}, args...)...); code != console.ExitOK || stdout != want {
			t.Errorf("exit %d, got\n%s%s\nwant\n%s", code, stdout, stderr, want)
		}
	}
	wantShown(`PREFIX      STORE  STATUS  OBJECTS
/lockstep/  -      no      -
`)
	c.want(console.ExitUsage, "set either --kubeconfig, to read the ID from the objects, or --id", "store", "adopt")
	c.want(console.ExitUsage, "set either --kubeconfig, to read the ID from the objects, or --id", "store", "adopt", "--id", lostStore, "--kubeconfig", objects)
	c.want(console.ExitUsage, `--id: "mine": must be 32 hexadecimal digits`, "store", "adopt", "--id", "mine")
	c.want(console.ExitFailed, "kubeconfig", "store", "adopt", "--kubeconfig", "/nope")
	c.want(console.ExitFailed, "the objects have no store ID", "store", "adopt", "--kubeconfig", kubeconfigOf(t, nil))
	c.want(console.ExitFailed, "the objects have no store ID", "store", "adopt", "--kubeconfig", kubeconfigOf(t, map[string]string{"x": "y"}))
	c.want(console.ExitOK, "store /lockstep/ has adopted the ID "+otherStore, "store", "adopt", "--id", otherStore)
	c.want(console.ExitOK, "store /lockstep/ has adopted the ID "+lostStore, "store", "adopt", "--kubeconfig", objects)
	wantShown(`PREFIX      STORE                             STATUS  OBJECTS
/lockstep/  5f6c1e0d9a7b43c28f15e6d0b2a49c71  no      5f6c1e0d9a7b43c28f15e6d0b2a49c71
`, "--kubeconfig", objects)

	if _, err := raw.Put(t.Context(), "/lockstep/kubernetes/reconciler/status", ""); err != nil {
		t.Fatal(err)
	}
	c.want(console.ExitFailed, "this store has a status: its leader governs objects already; if this store is to take over the objects all the same, stop its sidecars, type sidecar store delete --status-only --yes --etcd-servers="+server.Endpoints()[0], "store", "adopt", "--id", otherStore)
	wantShown(`{
  "prefix": "/lockstep/",
  "store": "5f6c1e0d9a7b43c28f15e6d0b2a49c71",
  "status": true,
  "objects": ""
}
`, "-o", "json")
	c.want(console.ExitUsage, `unknown command "take"`, "store", "take")
	c.want(console.ExitOK, "Let this store take over the objects of another store", "store")
}

func TestStoreDelete(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	c := command{T: t, endpoint: server.Endpoints()[0]}
	put := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if _, err := raw.Put(t.Context(), key, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantOutput := func(want int, stdout, stderr string, args ...string) {
		t.Helper()
		code, out, errs := c.run(append([]string{"store", "delete"}, args...)...)
		if code != want || out != stdout || errs != stderr {
			t.Errorf("store delete %q: exit %d, got\n%s%s\nwant %d and\n%s%s", args, code, out, errs, want, stdout, stderr)
		}
	}
	wantOutput(console.ExitOK, "There is nothing to delete below /lockstep/\n", "")
	c.want(console.ExitOK, "store /lockstep/ has adopted the ID "+lostStore, "store", "adopt", "--id", lostStore)
	put("/lockstep/nodes/a", "/lockstep/nodes/b", "/lockstep/kubernetes/reconciler/status", "/lockstep/tenant-7/store", "/lockstep/presence/b")
	const shown = `Store /lockstep/, ID 5f6c1e0d9a7b43c28f15e6d0b2a49c71

KEY                                     COUNT  NODES
/lockstep/nodes/                        2      a, b
/lockstep/store                         1      -
/lockstep/kubernetes/reconciler/status  1      -

`
	const kept = "Kept: 1 key below /lockstep/ that is not of this store, such as /lockstep/tenant-7/store\n"
	const alive = `Store /lockstep/, ID 5f6c1e0d9a7b43c28f15e6d0b2a49c71

KEY                                     COUNT  NODES
/lockstep/nodes/                        2      a, b
/lockstep/presence/                     1      b
/lockstep/store                         1      -
/lockstep/kubernetes/reconciler/status  1      -

`
	const refused = "sidecar: delete the store /lockstep/: the store is in use by the sidecars of these nodes: b; stop these sidecars first. One that was killed counts until its lease ends. To delete the keys all the same, add --force\n"
	wantOutput(console.ExitFailed, alive+kept, refused)
	wantOutput(console.ExitFailed, alive+kept, refused, "--yes")
	wantOutput(console.ExitFailed, `{
  "prefix": "/lockstep/",
  "store": "5f6c1e0d9a7b43c28f15e6d0b2a49c71",
  "deleted": false,
  "keys": [
    {
      "key": "kubernetes/reconciler/status",
      "count": 1,
      "nodes": []
    }
  ],
  "total": 1,
  "alive": [
    "b"
  ],
  "memberKeysKept": 0,
  "otherKeysKept": 1,
  "otherKey": "/lockstep/tenant-7/store"
}
`, refused, "--yes", "--status-only", "-o", "json")
	wantOutput(console.ExitOK, alive+kept+"Nothing was deleted. To delete 5 keys, type: sidecar store delete --yes --force --etcd-servers="+c.endpoint+"\n", "", "--force")
	if _, err := raw.Delete(t.Context(), "/lockstep/presence/b"); err != nil {
		t.Fatal(err)
	}
	wantOutput(console.ExitOK, shown+kept+"Nothing was deleted. To delete 4 keys, type: sidecar store delete --yes --etcd-servers="+c.endpoint+"\n", "")
	wantOutput(console.ExitOK, shown+"4 keys deleted\n"+kept, "", "--yes")
	wantOutput(console.ExitOK, "There is nothing to delete below /lockstep/\n"+kept, "", "--yes")
	c.want(console.ExitOK, `"deleted": false`, "store", "delete", "--yes", "-o", "json")
	c.want(console.ExitUsage, "must be one of table, json", "store", "delete", "-o", "yaml")
	c.want(console.ExitUsage, `unexpected argument "/lockstep/"`, "store", "delete", "/lockstep/")
}
