package applyset

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
)

// Stranger is an object that carries the set's label and is not of the set.
type Stranger struct {
	Key      Key
	Resource kube.Resource
	Manager  string // the field manager that set the label; empty: unknown
}

// Strangers counts strangers, and contains the first of them.
type Strangers struct {
	Total int
	First []Stranger // at most MaxStrangers, in the order of their keys
}

// MaxStrangers bounds Strangers.First. A few are enough to recognize their origin.
const MaxStrangers = 10

// Add counts a stranger. details returns it, and is called only where there is
// room.
func (s *Strangers) Add(details func() Stranger) {
	s.Total++
	if len(s.First) < MaxStrangers {
		s.First = append(s.First, details())
	}
}

// With returns the strangers of two lists.
func (s Strangers) With(o Strangers) Strangers {
	first := slices.Concat(s.First, o.First)
	sorting.By(first, func(a, b Stranger) int { return a.Key.Compare(b.Key) })
	return Strangers{Total: s.Total + o.Total, First: first[:min(len(first), MaxStrangers)]}
}

// MayBeStranger reports whether an object that is not of the set says something about its
// writer. Controllers copy labels to the objects that they create: the controllers of endpoints
// copy the labels of a Service.
func MayBeStranger(gk schema.GroupKind, h kube.Head) bool {
	switch gk {
	case schema.GroupKind{Kind: "Endpoints"}, schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		return false
	}
	return !h.HasController()
}

// Command returns the command that deletes the stranger. A user chose its name, so
// it is quoted for a shell.
func (s Stranger) Command() string {
	resource := schema.GroupResource{Group: s.Resource.Group, Resource: s.Resource.Name}
	words := []string{"kubectl", "delete", resource.String()}
	if s.Key.Namespace != "" {
		words = append(words, "--namespace="+quote(s.Key.Namespace))
	}
	return strings.Join(append(words, "--", quote(s.Key.Name)), " ")
}

// plain matches words that every shell reads as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9._:@%+=/,-]+$`)

func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
