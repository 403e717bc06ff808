package applyset

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// The epoch policy, which users know as the fence, is an admission policy in each
// set (docs/protocol-objects.md#stale-writes). With it the API server itself refuses to
// replace an object with older content. It examines the very state that its
// compare-and-swap replaces. So no stale leader can be late enough to slip
// through, whatever it read or believes.
//
// It is the second line of defense. The first is the preconditions of each
// write. They also protect deletions, kinds that no policy governs, and the time
// while the policy is missing. Neither can refuse the creation of an object that
// does not exist (docs/bundles.md).
//
// The policy also protects the set against other users. A user who sets the label
// of the set, or an annotation of ours, needs the right to update the set's parent.
// That user can change what the leader believes anyway.
//
// The policy's conditions never fail: where the old annotation is garbage, any
// other one may replace it. Otherwise no writer could repair that object. Their
// cost is bounded, however many labels, annotations and owners an object has: the
// API server refuses a request whose checks cost too much.

// epochPattern matches the texts that ParseEpoch accepts, without the bound, as an RE2
// expression.
const epochPattern = `^[1-9][0-9]{0,15}$`

// AdmissionGroup is the API group of policies and webhook configurations.
const AdmissionGroup = "admissionregistration.k8s.io"

// FenceKinds returns the kinds of the epoch policy's objects.
func FenceKinds() []schema.GroupKind {
	return []schema.GroupKind{
		{Group: AdmissionGroup, Kind: "ValidatingAdmissionPolicy"},
		{Group: AdmissionGroup, Kind: "ValidatingAdmissionPolicyBinding"},
	}
}

// fenceName is the name of the policy's objects. They are cluster-wide, and the names of sets
// in two namespaces may be equal.
func (s Set) fenceName() string { return s.Name + "-fence." + s.Namespace }

// IsFence reports whether k is an object of the set's epoch policy.
func (s Set) IsFence(k Key) bool {
	for _, gk := range FenceKinds() {
		if k == (Key{GroupKind: gk, Name: s.fenceName()}) {
			return true
		}
	}
	return false
}

// Fence returns the objects of the set's epoch policy, complete with the server's
// defaults, so that one write is enough.
func (s Set) Fence() []*kube.Object {
	kinds, name := FenceKinds(), s.fenceName()
	return []*kube.Object{
		fenceObject(kinds[0], name, map[string]any{
			"failurePolicy": "Fail",
			"matchConstraints": map[string]any{
				"matchPolicy":    "Equivalent",
				"objectSelector": map[string]any{"matchLabels": map[string]any{bundle.LabelPartOf: s.ID()}},
				"resourceRules": []any{map[string]any{
					"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "operations": []any{"CREATE", "UPDATE"},
					"resources": []any{"*"}, // without subresources: we write none
					"scope":     "*",
				}},
			},
			"matchConditions": s.fenceMatch(),
			"variables":       s.fenceVariables(),
			"validations":     s.fenceValidations(),
		}),
		fenceObject(kinds[1], name, map[string]any{
			"policyName": name, "validationActions": []any{"Deny"},
		}),
	}
}

func fenceObject(gk schema.GroupKind, name string, spec map[string]any) *kube.Object {
	return &kube.Object{Object: map[string]any{
		"apiVersion": gk.WithVersion("v1").GroupVersion().String(), "kind": gk.Kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// KeepExclusions copies the resources that an administrator excluded from the
// policy live to want, which replaces it. For a server-side apply, matchConstraints
// is one field: without them, the apply would remove them.
func KeepExclusions(want, live *kube.Object) {
	constraints := []string{"spec", "matchConstraints"}
	have, _, _ := unstructured.NestedMap(live.Object, constraints...)
	into, found, _ := unstructured.NestedMap(want.Object, constraints...)
	excluded, some := have["excludeResourceRules"]
	if !found || !some {
		return
	}
	into["excludeResourceRules"] = excluded
	_ = unstructured.SetNestedMap(want.Object, into, constraints...) // its parents are maps: they were just read
}

// FenceHint says which rights a user needs whose request for one of the policy's
// kinds was refused with err. It is empty for other kinds and errors.
func FenceHint(gk schema.GroupKind, err error) string {
	if !apierrors.IsForbidden(err) || !slices.Contains(FenceKinds(), gk) {
		return ""
	}
	return " (each set has a fence of a policy and its binding: the user needs get, list, watch, create, patch and delete of " +
		"validatingadmissionpolicies and validatingadmissionpolicybindings)"
}

// celEpoch is an object's epoch annotation, or "".
func celEpoch(object string) string {
	return fmt.Sprintf("%s.metadata.?annotations[?'%s'].orValue('')", object, bundle.AnnotationContentEpoch)
}

// celInSet is true for an object with the label of the set.
func (s Set) celInSet(object string) string {
	return fmt.Sprintf("%s.metadata.?labels[?'%s'].orValue('') == '%s'", object, bundle.LabelPartOf, s.ID())
}

// celControlled is true for an object that a controller owns.
func celControlled(object string) string {
	return fmt.Sprintf("%s.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))", object)
}

// celController is true for the controllers of Kubernetes, whichever way they are authenticated.
const celController = "request.userInfo.?username.orValue('') == 'system:kube-controller-manager' || " +
	"'system:serviceaccounts:kube-system' in request.userInfo.?groups.orValue([])"

// celVariable is an expression with a name. It may use those before it.
type celVariable struct{ name, expression string }

// celVariables name the questions of the conditions. On a creation there is no old object. claims is
// asked of updates only: an object that is created joins. An object of the set that a controller
// adopts would be copied from then on, and never be removed: adopts needs the right, or one of the
// controllers of Kubernetes, which adopt the orphans of a deleted parent.
func (s Set) celVariables() []celVariable {
	var names []string
	for _, name := range append(bundle.StampAnnotations(), bundle.ChoiceAnnotations()...) {
		names = append(names, "'"+name+"'")
	}
	return []celVariable{
		{"before", "oldObject == null ? '' : " + celEpoch("oldObject")},
		{"after", celEpoch("object")},
		{"stamped", fmt.Sprintf("variables.before.matches('%s') && int(variables.before) <= %d", epochPattern, int64(protocol.MaxContentEpoch))},
		{"joins", fmt.Sprintf("%s && (oldObject == null || !(%s))", s.celInSet("object"), s.celInSet("oldObject"))},
		{"claims", fmt.Sprintf("%s && [%s].exists(a, object.metadata.?annotations[?a].hasValue() && "+
			"object.metadata.?annotations[?a] != oldObject.metadata.?annotations[?a])", s.celInSet("object"), strings.Join(names, ", "))},
		{"adopts", fmt.Sprintf("oldObject != null && %s && !(%s) && %s",
			s.celInSet("object"), celControlled("oldObject"), celControlled("object"))},
		{"copied", fmt.Sprintf("request.resource.resource in ['endpoints', 'endpointslices'] || %s && (oldObject == null || %s)",
			celControlled("object"), celControlled("oldObject"))},
	}
}

func (s Set) fenceVariables() []any {
	var out []any
	for _, v := range s.celVariables() {
		out = append(out, map[string]any{"name": v.name, "expression": v.expression})
	}
	return out
}

// The conditions of the fence, which use celVariables.
var (
	celStamps = fmt.Sprintf("!variables.stamped || variables.after != '' || request.options.?fieldManager.orValue('') != '%s'", kube.FieldManager)
	celGrows  = fmt.Sprintf("!variables.stamped || variables.after == '' || "+
		"variables.after.matches('%s') && int(variables.after) >= int(variables.before)", epochPattern)
)

// celMay is true for a request that leaves label and annotations as they are, or
// comes from a user who may set them.
func (s Set) celMay() string {
	return fmt.Sprintf("!(variables.joins || variables.claims || variables.adopts) || variables.copied || "+
		"variables.adopts && (%s) || authorizer.group('').resource('configmaps').namespace('%s').name('%s').check('update').allowed()", celController, s.Namespace, s.Name)
}

// fenceMatch is true for a request that a validation refuses. The API server converts both
// objects for the match conditions, and three times more for validations, messages and audit
// annotations. With this condition it does so once for a request that is not refused. Match
// conditions know no variables.
func (s Set) fenceMatch() []any {
	refused := fmt.Sprintf("!((oldObject == null || variables.before == variables.after || (%s) && (%s)) && (%s))", celStamps, celGrows, s.celMay())
	for _, v := range slices.Backward(s.celVariables()) {
		refused = strings.ReplaceAll(refused, "variables."+v.name, "("+v.expression+")")
	}
	return []any{map[string]any{"name": "refused", "expression": refused}}
}

// fenceValidations say how label, annotations and stamp may change. Users may
// remove them, as `kubectl replace` with a manifest does: the next pass restores
// them. Lockstep itself never writes an object without a stamp.
func (s Set) fenceValidations() []any {
	keep := fmt.Sprintf("; leave the annotation %s as it is, or out", bundle.AnnotationContentEpoch)
	return []any{
		map[string]any{
			"expression": celStamps,
			"message":    fmt.Sprintf("a write of the field manager %s needs a content epoch", kube.FieldManager),
			"reason":     "Forbidden",
		},
		map[string]any{
			"expression": celGrows,
			"messageExpression": fmt.Sprintf("'content epoch ' + variables.before + ' cannot become ' + "+
				"(variables.after.matches('%s') ? variables.after : 'what is no number') + '%s'", epochPattern, keep),
			"message": "the content epoch cannot become lower" + keep,
			"reason":  "Forbidden",
		},
		map[string]any{
			"expression": s.celMay(),
			"message": fmt.Sprintf("the label %s=%s and the annotations lockstep.dev/... belong to Lockstep; leave them as they are, or out "+
				"(to set them, or to give such an object a controller as its owner, a user needs the right to update the ConfigMap %s in the namespace %s)", bundle.LabelPartOf, s.ID(), s.Name, s.Namespace),
			"reason": "Forbidden",
		},
	}
}
