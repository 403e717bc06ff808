package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxBundleName is the maximum length of a bundle's name, in bytes. Every node record
// carries one, and people type it.
const MaxBundleName = 63

// ValidBundleName reports whether name is valid for a bundle: lower-case letters, digits,
// hyphens and dots, with a letter or a digit at both ends.
func ValidBundleName(name string) bool {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' }
	return name != "" && len(name) <= MaxBundleName && strings.Trim(name, "-.") == name && !strings.ContainsFunc(name, other)
}

// KnownBundleName returns a name that was read from etcd or the API. An invalid name
// counts as missing: it returns "".
func KnownBundleName(name string) string {
	if !ValidBundleName(name) {
		return ""
	}
	return name
}

// Replacement is a user's permission to replace the objects of bundle From by bundle To,
// once (docs/protocol.md#bundle-names). The zero Replacement: no permission.
type Replacement struct {
	From, To string
	Since    time.Time // for people
	Revision int64     // the key's mod revision; 0: no such key
}

// Allows reports whether a leader of one bundle may take over the objects of another. People who ask for that again write
// nothing, so that a script that does does not fail.
func (r Replacement) Allows(from, to string) bool {
	return r.Revision != 0 && r.From == from && r.To == to
}

// OtherBundle reports whether a first reconciliation must stop, because the name beside
// the mark is neither the work's bundle nor the bundle that it may replace.
func (w Work) OtherBundle(name string) bool {
	return w.First && name != "" && w.Content.Bundle != "" && name != w.Content.Bundle && name != w.Over
}

// holdForBundle is HoldForBundle: the objects belong to a bundle with another name than the
// leader's, and no user asked for the replacement.
func holdForBundle(in Input) (Step, bool) {
	own := in.Local.Bundle
	if own == "" {
		return Step{}, false
	}
	now, present := in.Status.Status, in.Status.Kind == StatusPresent
	name := now.Bundle
	switch {
	case !present:
		name = in.Mark.Bundle() // a mark that was not read is surveyed by the next rule
	case name == "" && now.Digest != in.Local.Digest:
		// An older program wrote the status, or a user did. The name may be in the mark
		// alone, and the next leader of this bundle would lose it.
		if in.Mark.Kind == MarkUnknown {
			return in.survey(HoldForBundle, "the status does not name its bundle; reading the name from the mark"), true
		}
		if name = in.Mark.Bundle(); name == "" {
			name = nameOfDigest(in.Fleet, now.Digest)
		}
	}
	if name == "" || name == own {
		return Step{}, false
	}
	if present && now.Bundle == "" {
		named := now
		named.Bundle, named.Leader, named.Epoch = name, in.Local.ID, in.Local.Epoch
		return in.write(HoldForBundle, named, "writing the name of the objects' bundle into the status"), true
	}
	if in.Replacement.Allows(name, own) {
		return Step{}, false
	}
	return Step{
		Kind: StepHold, Rule: HoldForBundle, Reread: !present, Message: foreignBundle(in.Fleet, name, own),
		Work: Work{Store: in.Store, FallbackEntry: in.fallbackEntry()},
	}, true
}

// nameOfDigest returns the name that a registered controller gives to the bundle with a
// digest; empty: none of them runs that bundle, or its record does not name it.
func nameOfDigest(f Fleet, digest string) string {
	for _, r := range f.Records {
		if r.Problem == "" && r.Node.Roles.Controller && digest != "" && r.Node.Digest == digest && r.Node.Bundle != "" {
			return r.Node.Bundle
		}
	}
	return ""
}

// foreignBundle says why a leader leaves the objects of another bundle alone, which node
// runs which bundle, and which command to type.
func foreignBundle(f Fleet, objects, own string) string {
	return fmt.Sprintf("the objects are of the bundle %s, and this leader runs %s: it applies and repairs nothing (%s); %s",
		objects, own, bundlesOn(f), otherBundleRemedy("the nodes that run "+own, objects, own))
}

func otherBundleRemedy(nodes, objects, own string) string {
	return fmt.Sprintf("start %s with the bundle %s (--bundle), or if %s is meant to replace %s: sidecar bundle replace --from %s --to %s",
		nodes, objects, own, objects, objects, own)
}

// bundlesOn lists the controllers by the bundle that they run.
func bundlesOn(f Fleet) string {
	nodes := map[string][]*Record{}
	var names []string
	for _, r := range f.Records {
		if r.Problem != "" || !r.Node.Roles.Controller {
			continue
		}
		name := cmp.Or(r.Node.Bundle, "a bundle of unknown name")
		if nodes[name] == nil {
			names = append(names, name)
		}
		nodes[name] = append(nodes[name], r)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = name + " on " + RecordNames(nodes[name])
	}
	return strings.Join(names, "; ")
}

// ForeignBundle says that a node's bundle and the objects' bundle differ in name, and which
// command to type; empty: they do not, or a name is unknown.
func ForeignBundle(v StatusView, bundle string) string {
	objects := v.Status.Bundle
	if v.Kind != StatusPresent || objects == "" || bundle == "" || objects == bundle {
		return ""
	}
	return fmt.Sprintf("runs the bundle %s, and the objects are of the bundle %s, which no leader replaces by itself; %s",
		bundle, objects, otherBundleRemedy("it", objects, bundle))
}

// ReplacementState says what a replacement waits for, or why it has no effect.
func ReplacementState(v StatusView, f Fleet, r Replacement) string {
	if objects := v.Status.Bundle; v.Kind == StatusPresent && objects != "" && objects != r.From {
		return fmt.Sprintf("has no effect: the objects are of the bundle %s; to forget it: sidecar bundle replace --cancel", objects)
	}
	for _, n := range f.Records {
		if n.AliveController() && n.Presence.Election == Leading && n.Node.Bundle == r.To {
			return fmt.Sprintf("is used by %s, which leads with the bundle %s", n.ID, r.To)
		}
	}
	return fmt.Sprintf("waits until a node with the bundle %s leads (%s); to forget it: sidecar bundle replace --cancel", r.To, bundlesOn(f))
}

// ReplacementRefusal says why users may not ask for a replacement on these facts. If it
// returns "", they may, and witness is a record of a controller that runs the bundle to.
func ReplacementRefusal(v StatusView, f Fleet, pending Replacement, from, to string) (refusal string, witness Record) {
	objects := v.Status.Bundle
	switch {
	case pending.Revision != 0:
		return fmt.Sprintf("the replacement of %s by %s is waiting already; to forget it: sidecar bundle replace --cancel", pending.From, pending.To), witness
	case v.Kind != StatusPresent: // the leader compares with the mark
	case objects == "":
		return "the status does not name its bundle, because an older program wrote it, or people did; the next leader of this release of Lockstep writes the name: try again then", witness
	case objects == to:
		return fmt.Sprintf("the objects are of the bundle %s already", to), witness
	case objects != from:
		return fmt.Sprintf("the objects are of the bundle %s, not of %s: check --from", objects, from), witness
	}
	for _, r := range f.Records {
		if r.Problem == "" && r.Node.Roles.Controller && r.Node.Bundle == to && (witness.ID == "" || r.Alive && !witness.Alive) {
			witness = *r
		}
	}
	if witness.ID == "" {
		runs := cmp.Or(bundlesOn(f), "no controller is registered")
		return fmt.Sprintf("no registered node runs the bundle %s (%s): check --to, or start a node with it first", to, runs), witness
	}
	return "", witness
}
