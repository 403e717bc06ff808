package rights

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Label is on all roles and bindings that this package writes. Its value is their hash.
const Label = "lockstep.dev/rights"

// policyRule is a rule of a role in the API's form.
type policyRule struct {
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
	Verbs         []string `json:"verbs"`
}

// role is a ClusterRole, or the Role of a namespace, and its binding.
type role struct {
	namespace string // empty: a ClusterRole
	parts     []part
}

// part contains the rules of a role for one reason.
type part struct {
	comment string
	rules   []policyRule
}

// kinds returns the kinds of a role and of its binding.
func (r role) kinds() (roles, bindings string) {
	if r.namespace == "" {
		return "ClusterRole", "ClusterRoleBinding"
	}
	return "Role", "RoleBinding"
}

// roles returns the roles to write: the ClusterRole, then a Role for each namespace.
func (r Rights) roles() []role {
	var out []role
	for i, one := range r.rules {
		if i == 0 || r.rules[i-1].namespace != one.namespace {
			out = append(out, role{namespace: one.namespace})
		}
		last := &out[len(out)-1]
		if i == 0 || len(last.parts) == 0 || r.rules[i-1].purpose != one.purpose {
			last.parts = append(last.parts, part{comment: r.comment(one)})
		}
		p := &last.parts[len(last.parts)-1]
		if n := len(p.rules); n > 0 && len(one.names) == 0 && one.joins(p.rules[n-1]) {
			p.rules[n-1].Resources = append(p.rules[n-1].Resources, one.resource)
			continue
		}
		p.rules = append(p.rules, policyRule{
			APIGroups: []string{one.group}, Resources: []string{one.resource}, ResourceNames: one.names, Verbs: one.verbs(),
		})
	}
	return out
}

// joins reports whether a rule for all names fits into one that is written.
func (r rule) joins(written policyRule) bool {
	return len(written.ResourceNames) == 0 && written.APIGroups[0] == r.group && slices.Equal(written.Verbs, r.verbs())
}

// anyGroup is no group: "" is the group of ConfigMaps and Secrets.
const anyGroup = "*"

// comment explains the rules that share the purpose and the namespace of one of them.
func (r Rights) comment(of rule) string {
	has := func(group, resource, verb string) bool {
		return slices.ContainsFunc(r.rules, func(o rule) bool {
			return o.purpose == of.purpose && o.namespace == of.namespace && (group == anyGroup || o.group == group) &&
				(resource == "" || o.resource == resource) && (verb == "" || slices.Contains(o.verbs(), verb))
		})
	}
	switch of.purpose {
	case find:
		out := "list: to find the objects of the set by their label. watch: to notice when others change\nthem. Both in the whole cluster: RBAC knows no labels."
		if has("", "secrets", "") {
			out += "\nWith that, these users can read every Secret of the cluster."
		}
		return out
	case create:
		out := "create: what is missing. RBAC cannot restrict a creation to names."
		if of.namespace == "" {
			out += " A Role needs\nits namespace, so these are for all namespaces unless every cluster has theirs."
		}
		return out
	case change:
		out := "For these objects by name. get: to compare them. patch: to write and repair them."
		if has(anyGroup, "", "delete") {
			out += "\ndelete: to remove what the bundle dropped, and to recreate what cannot be changed."
		}
		return out
	case aggregate:
		return "get: to see whether another server handles these APIs, when minApiserverRelease is raised."
	case guarded:
		out := "What the API demands of writers of certain kinds: to grant rights that they do not\nhave, and to name objects that they cannot read."
		if has(rbacGroup, "", "escalate") {
			out += " With escalate, these users are as\npowerful as a cluster administrator: protect their kubeconfigs like admin.conf."
		}
		return out
	}
	return ""
}

// Hash identifies the rights of a group: it is equal for two bundles that need the same.
func (r Rights) Hash(group string) string {
	rules := []byte(group)
	for _, one := range r.rules {
		rules = fmt.Appendf(rules, "\n%q %q %q %q %q", one.namespace, one.group, one.resource, one.verbs(), one.names)
	}
	sum := sha256.Sum256(rules)
	return hex.EncodeToString(sum[:4])
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// roleName is the name of all roles and bindings. It ends with their hash, so that other
// rights never replace these, while a leader of this bundle may still need them.
func (r Rights) roleName(group string) string {
	name := notInName.ReplaceAllString(r.name, "-")
	return "lockstep:" + name[:min(len(name), 63)] + ":" + r.Hash(group)
}

// RemoveOthers returns the command that deletes all other rights that were written by this
// package.
func (r Rights) RemoveOthers(group string) string {
	return fmt.Sprintf("kubectl delete clusterrolebindings,clusterroles,rolebindings,roles -A -l '%s,%s!=%s'", Label, Label, r.Hash(group))
}

// Objects returns the roles and bindings, ready to be written as JSON.
func (r Rights) Objects(group string) []any {
	var out []any
	for _, one := range r.roles() {
		roles, bindings := one.kinds()
		metadata := map[string]any{"name": r.roleName(group), "labels": map[string]any{Label: r.Hash(group)}}
		if one.namespace != "" {
			metadata["namespace"] = one.namespace
		}
		var rules []policyRule
		for _, p := range one.parts {
			rules = append(rules, p.rules...)
		}
		out = append(out,
			map[string]any{"apiVersion": rbacGroup + "/v1", "kind": roles, "metadata": metadata, "rules": rules},
			map[string]any{
				"apiVersion": rbacGroup + "/v1", "kind": bindings, "metadata": metadata,
				"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": roles, "name": r.roleName(group)},
				"subjects": []any{map[string]any{"apiGroup": rbacGroup, "kind": "Group", "name": group}},
			})
	}
	return out
}

// YAML returns the same with comments, a document for each.
func (r Rights) YAML(group string) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, `# The rights that the sidecars need for the bundle %s (%s), beside those
# that Lockstep itself needs. Only the leader uses them; each sidecar may become it.
#
# The names of these roles end with a hash of their rules. So the rights of another bundle
# do not replace them: in an upgrade, leaders need those of both bundles. When no node runs
# another bundle any more, and the removals are done, delete the others:
#   %s
`, r.bundle, r.countObjects(), r.RemoveOthers(group))
	for _, guess := range r.Guessed {
		fmt.Fprintf(&out, "#\n# A guess: %s of %s is %q. Its CRD is not in the bundle.\n", guess.Kind, guess.APIVersion, guess.Resource)
	}
	for i, one := range r.roles() {
		if i > 0 {
			out.WriteString("---\n")
		}
		r.writeRole(&out, one, group)
	}
	return []byte(out.String())
}

func (r Rights) countObjects() string {
	if r.objects == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", r.objects)
}

func (r Rights) writeRole(out *strings.Builder, one role, group string) {
	roles, bindings := one.kinds()
	namespace := ""
	if one.namespace != "" {
		namespace = ", namespace: " + one.namespace
	}
	head := func(kind string) {
		fmt.Fprintf(out, "apiVersion: %s/v1\nkind: %s\nmetadata: {name: %s%s, labels: {%s: %s}}\n",
			rbacGroup, kind, quoted(r.roleName(group)), namespace, Label, quoted(r.Hash(group)))
	}
	head(roles)
	out.WriteString("rules:\n")
	for _, p := range one.parts {
		out.WriteString("# " + strings.ReplaceAll(p.comment, "\n", "\n# ") + "\n")
		for _, written := range p.rules {
			out.WriteString(written.yaml())
		}
	}
	out.WriteString("---\n")
	head(bindings)
	fmt.Fprintf(out, "roleRef: {apiGroup: %s, kind: %s, name: %s}\nsubjects: [{apiGroup: %s, kind: Group, name: %s}]\n",
		rbacGroup, roles, quoted(r.roleName(group)), rbacGroup, quoted(group))
}

// yaml returns a rule as one line, or as more if it contains many names.
func (p policyRule) yaml() string {
	out := "- {apiGroups: [" + list(p.APIGroups) + "], resources: [" + list(p.Resources) + "], "
	if len(p.ResourceNames) > 0 {
		out += "resourceNames: [" + list(p.ResourceNames) + "],\n   "
	}
	return out + "verbs: [" + list(p.Verbs) + "]}\n"
}

// namesInLine is how many words of a list are on one line.
const namesInLine = 6

func list(words []string) string {
	var out strings.Builder
	for i, word := range words {
		switch {
		case i == 0:
		case i%namesInLine == 0:
			out.WriteString(",\n     ")
		default:
			out.WriteString(", ")
		}
		out.WriteString(quoted(word))
	}
	return out.String()
}

var plain = regexp.MustCompile(`^[a-z][a-z0-9]*([.-][a-z0-9]+)*$`)

// quoted returns a string of YAML. JSON is YAML.
func quoted(s string) string {
	if plain.MatchString(s) && !slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, s) {
		return s
	}
	out, _ := json.Marshal(s) // a string cannot fail
	return string(out)
}
