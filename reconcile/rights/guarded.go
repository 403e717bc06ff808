package rights

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

const rbacGroup = "rbac.authorization.k8s.io"

// guarded adds the verbs that the API server demands of who writes an object, beside the right
// to write it: a user cannot grant rights without holding them.
func (c *collector) guarded(obj *kube.Object, namespace string) error {
	gvk := obj.GroupVersionKind()
	trustBundle := schema.GroupKind{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}
	key := ruleKey{purpose: guarded, namespace: namespace, group: gvk.Group}
	switch {
	case gvk.Group == rbacGroup && strings.HasSuffix(gvk.Kind, "Binding"):
		kind, name := text(obj, "roleRef", "kind"), text(obj, "roleRef", "name")
		if key.verb, key.resource = "bind", pluralOf(kind); kind != "" && name != "" {
			c.add(key, name)
		}
	case gvk.Group == rbacGroup:
		// A creation carries no name yet, so names would refuse it.
		key.verb, key.resource = "escalate", pluralOf(gvk.Kind)
		c.add(key, "")
	case gvk.GroupKind() == trustBundle && text(obj, "spec", "signerName") != "":
		key.verb, key.resource = "attest", "signers"
		c.add(key, text(obj, "spec", "signerName"))
	case gvk.Group == "admissionregistration.k8s.io":
		return c.parameters(obj)
	}
	return nil
}

// parameters adds the right to read the objects by which an admission policy decides.
func (c *collector) parameters(policy *kube.Object) error {
	kind, found, _ := unstructured.NestedStringMap(policy.Object, "spec", "paramKind")
	if !found {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(kind["apiVersion"], kind["kind"])
	resource, err := c.resources.of(gvk)
	if err != nil {
		return err
	}
	c.add(ruleKey{purpose: guarded, group: gvk.Group, resource: resource, verb: "get"}, "")
	return nil
}
