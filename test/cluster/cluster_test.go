package cluster_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

func TestStartAPIServer(t *testing.T) {
	c := cluster.NewForTest(t, "kube-apiserver")
	first := mustStartAPIServer(t, c, cluster.APIServerConfig{Name: "first"})
	t.Run("its RBAC roles are there", func(t *testing.T) {
		roles := newDynamic(t, first.Config()).Resource(schema.GroupVersionResource{
			Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles",
		})
		if _, err := roles.Get(t.Context(), "cluster-admin", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("the kubeconfig works", func(t *testing.T) {
		cfg, err := clientcmd.BuildConfigFromFlags("", first.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		putConfigMap(t, cfg, "by-kubeconfig")
	})
	t.Run("a second one shows the same objects", func(t *testing.T) {
		putConfigMap(t, first.Config(), "shared")
		second := mustStartAPIServer(t, c, cluster.APIServerConfig{Name: "second"})
		wantConfigMap(t, second.Config(), "shared")
	})
	t.Run("stops, and starts again at the same address", func(t *testing.T) {
		putConfigMap(t, first.Config(), "kept")
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		if code := first.ExitCode(); code != 0 {
			t.Errorf("got exit code %d, want 0", code)
		}
		addr := strings.TrimPrefix(first.URL(), "https://")
		again := mustStartAPIServer(t, c, cluster.APIServerConfig{Name: "first", Addr: addr})
		wantConfigMap(t, again.Config(), "kept")
		if err := again.Kill(); err != nil {
			t.Fatal(err)
		}
		if code := again.ExitCode(); code != -1 {
			t.Errorf("got exit code %d after a kill, want -1", code)
		}
	})
	t.Run("a wrong flag is an error that shows the log", func(t *testing.T) {
		_, err := c.StartAPIServer(cluster.APIServerConfig{Name: "broken", Args: []string{"--no-such-flag"}})
		if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
			t.Errorf("got %v, want an error with exit status and log", err)
		}
	})
}

func TestProber(t *testing.T) {
	c := cluster.NewForTest(t, "kubelet-probe")
	prober, err := c.StartProber()
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]bool{"/ok": true, "/unknown": false} {
		probe, err := prober.Probe(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if probe.OK() != want {
			t.Errorf("%s: got %+v, want OK %t", path, probe, want)
		}
	}
}

func TestPoll(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	calls := 0
	err := cluster.Poll(ctx, func(context.Context) error {
		if calls++; calls < 3 {
			return os.ErrNotExist
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("got %v after %d calls, want no error after 3", err, calls)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = cluster.Poll(ctx, func(context.Context) error { return os.ErrNotExist })
	if err == nil || !strings.Contains(err.Error(), os.ErrNotExist.Error()) {
		t.Errorf("got %v, want one that says what the condition said", err)
	}
}

func mustStartAPIServer(t *testing.T, c *cluster.Cluster, cfg cluster.APIServerConfig) *cluster.APIServer {
	t.Helper()
	a, err := c.StartAPIServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newDynamic(t *testing.T, cfg *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func configMaps(t *testing.T, cfg *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	return newDynamic(t, cfg).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
}

func putConfigMap(t *testing.T, cfg *rest.Config, name string) {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
	}}
	if _, err := configMaps(t, cfg).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func wantConfigMap(t *testing.T, cfg *rest.Config, name string) {
	t.Helper()
	if _, err := configMaps(t, cfg).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestShared(t *testing.T) {
	var shared cluster.Shared
	shared.Close() // nothing was started
	server := shared.Get(t)
	if again := shared.Get(t); again != server {
		t.Errorf("got another server the second time")
	}
	shared.Close()
	select {
	case <-server.Done():
	default:
		t.Errorf("the server still runs after Close")
	}

	t.Run("the next one finds the roles that the first one wrote", func(t *testing.T) {
		client := cluster.NewAPIServer(t).Cluster.Etcd.Client(t)
		found, err := client.Get(t.Context(), "/registry/clusterroles/", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		together := 0
		for _, kv := range found.Kvs {
			if kv.CreateRevision == found.Kvs[0].CreateRevision && kv.Version == 1 {
				together++
			}
		}
		if together < 50 {
			t.Errorf("%d of %d roles were written together, and not again", together, len(found.Kvs))
		}
	})
}
