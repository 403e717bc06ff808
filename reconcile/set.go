package reconcile

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// tooling names the writer, and the version of the form in which the parent is
// kept. It is not the program's version, or every upgrade would write the parent.
const tooling = kube.FieldManager + "/v1.0.0"

// set names the objects that belong together: all that one bundle made.
type set struct {
	name, namespace string // of the parent
}

// id is the value of the label on each object of the set, derived from the
// parent as the ApplySet form says.
func (s set) id() string {
	sum := sha256.Sum256([]byte(s.name + "." + s.namespace + ".ConfigMap."))
	return fmt.Sprintf("applyset-%s-v1", base64.RawURLEncoding.EncodeToString(sum[:]))
}

// selector selects the objects of the set.
func (s set) selector() string { return bundle.LabelPartOf + "=" + s.id() }

// parentKey is the key of the parent.
func (s set) parentKey() key {
	return key{GroupKind: parentResource().GroupKind(), namespace: s.namespace, name: s.name}
}

// parentResource is where the parent is kept. A ConfigMap is there in every
// cluster before any CRD is, is small, and is one of the kinds that the ApplySet
// form allows. What it holds is no secret.
func parentResource() kube.Resource {
	return kube.Resource{
		GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Name:             "configmaps", Namespaced: true, Listable: true, Watchable: true,
	}
}
