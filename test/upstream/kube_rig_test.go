package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var (
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	policies     = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindings     = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)

// kubeRig is a namespace of its own on the shared kube-apiserver.
type kubeRig struct {
	*testing.T
	server *cluster.APIServer
	api    *dynamic.DynamicClient
	etcd   *clientv3.Client
	ns     string
}

func newKubeRig(t *testing.T) *kubeRig {
	t.Helper()
	server := shared.Get(t)
	sum := sha256.Sum256([]byte(t.Name()))
	r := &kubeRig{
		T: t, server: server, api: dynamicClient(t, server),
		etcd: etcdtest.Dial(t, server.Cluster.Etcd.Endpoints()...), ns: "t-" + hex.EncodeToString(sum[:4]),
	}
	r.must(r.api.Resource(namespaces).Create(t.Context(), object("v1", "Namespace", r.ns, nil), metav1.CreateOptions{}))
	return r
}

func dynamicClient(t *testing.T, server *cluster.APIServer) *dynamic.DynamicClient {
	t.Helper()
	api, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func (r *kubeRig) must(obj *unstructured.Unstructured, err error) *unstructured.Unstructured {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	return obj
}

// object makes an object; meta is added to its metadata.
func object(apiVersion, kind, name string, meta map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	maps.Copy(metadata, meta)
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}}
}

// configMap makes one with a value.
func configMap(name, value string, meta map[string]any) *unstructured.Unstructured {
	obj := object("v1", "ConfigMap", name, meta)
	obj.Object["data"] = map[string]any{"value": value}
	return obj
}

// apply applies obj as manager, with force. The body goes out as it is: the
// library's Apply would take out what it thinks does not belong.
func (r *kubeRig) apply(api dynamic.ResourceInterface, obj *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	r.Helper()
	return patch(r, api, obj, metav1.PatchOptions{FieldManager: manager, Force: new(true)})
}

func patch(r *kubeRig, api dynamic.ResourceInterface, obj *unstructured.Unstructured, opts metav1.PatchOptions) (*unstructured.Unstructured, error) {
	r.Helper()
	body, err := json.Marshal(obj)
	if err != nil {
		r.Fatal(err)
	}
	return api.Patch(r.Context(), obj.GetName(), types.ApplyPatchType, body, opts)
}

func (r *kubeRig) configMaps() dynamic.ResourceInterface {
	return r.api.Resource(configMaps).Namespace(r.ns)
}

// code returns the status of an answer.
func code(err error) int {
	switch status, is := err.(apierrors.APIStatus); {
	case err == nil:
		return http.StatusOK
	case is:
		return int(status.Status().Code)
	}
	return 0
}

// said describes an answer for a message.
func said(err error) string {
	if err == nil {
		return "done"
	}
	return fmt.Sprintf("%d, %q", code(err), strings.TrimSpace(err.Error()))
}

// modRevision returns when etcd last stored a configmap of the rig.
func (r *kubeRig) modRevision(name string) int64 {
	r.Helper()
	resp, err := r.etcd.Get(r.Context(), "/registry/configmaps/"+r.ns+"/"+name)
	if err != nil {
		r.Fatal(err)
	}
	if len(resp.Kvs) != 1 {
		r.Fatalf("no key of configmap %s", name)
	}
	return resp.Kvs[0].ModRevision
}
