package applyset

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// tooling names the writer and the version of the parent's form. It is not the
// version of the program: otherwise each upgrade would write the parent.
const tooling = kube.FieldManager + "/v1.0.0"

// Set names the objects that belong together: all that one bundle created.
type Set struct {
	Name, Namespace string // of the parent
}

// ID returns the value of the label on each object of the set. It is derived from
// the parent as the ApplySet form requires.
func (s Set) ID() string {
	sum := sha256.Sum256([]byte(s.Name + "." + s.Namespace + ".ConfigMap."))
	return fmt.Sprintf("applyset-%s-v1", base64.RawURLEncoding.EncodeToString(sum[:]))
}

// Selector returns the label selector of the set's objects.
func (s Set) Selector() string { return bundle.LabelPartOf + "=" + s.ID() }

// ParentKey returns the key of the parent.
func (s Set) ParentKey() Key {
	return Key{GroupKind: ParentResource().GroupKind(), Namespace: s.Namespace, Name: s.Name}
}

// ParentResource returns the resource of the parent: ConfigMap. Every cluster serves it before
// any CRD, it is small, and the ApplySet form allows it. The parent contains no secrets.
func ParentResource() kube.Resource {
	return kube.Resource{
		GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Name:             "configmaps", Namespaced: true, Listable: true, Watchable: true,
	}
}
