package reconcile

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The names of the ApplySet form (KEP-3659), by which kubectl understands what
// belongs together.
const (
	labelPartOf          = "applyset.kubernetes.io/part-of"
	labelSetID           = "applyset.kubernetes.io/id"
	annotationTooling    = "applyset.kubernetes.io/tooling"
	annotationKinds      = "applyset.kubernetes.io/contains-group-kinds"
	annotationNamespaces = "applyset.kubernetes.io/additional-namespaces"

	// tooling is the writer, and the version of the form in which the parent is
	// kept: not of the program, or every upgrade would write the parent.
	tooling = kube.FieldManager + "/v1.0.0"
)

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
func (s set) selector() string { return labelPartOf + "=" + s.id() }

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
