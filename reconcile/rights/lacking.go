package rights

import (
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// granting is a document of RBAC that may be a role.
type granting struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Rules []policyRule `json:"rules"`
}

// documentEnd separates the documents of a manifest.
var documentEnd = regexp.MustCompile(`(?m)^---\s*$`)

// Lacking returns the rights that no role of a manifest grants. A document that is no role, or cannot be read,
// grants none. Whom the roles are bound to does not matter.
func (r Rights) Lacking(manifest []byte) []Right {
	var roles []granting
	for _, document := range documentEnd.Split(string(manifest), -1) {
		var one granting
		if yaml.Unmarshal([]byte(document), &one) == nil {
			roles = append(roles, one)
		}
	}
	return slices.DeleteFunc(r.Required(), func(right Right) bool {
		return slices.ContainsFunc(roles, func(one granting) bool { return one.grants(right) })
	})
}

func (g granting) grants(right Right) bool {
	if g.Kind != "ClusterRole" && (g.Kind != "Role" || g.Metadata.Namespace != right.Namespace) {
		return false
	}
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	return slices.ContainsFunc(g.Rules, func(p policyRule) bool {
		return has(p.APIGroups, right.Group) && has(p.Resources, right.Resource) && has(p.Verbs, right.Verb) &&
			(len(p.ResourceNames) == 0 || slices.Contains(p.ResourceNames, right.Name))
	})
}
