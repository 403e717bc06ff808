package reconcile

import (
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
)

type UnreachableError = exec.UnreachableError

var ErrForbidden = exec.ErrForbidden

// NewForSet is New for a set with another parent, so that tests can have many
// sets on one API server.
func NewForSet(cfg Config, name, namespace string) (*Reconciler, error) {
	return newForSet(cfg, applyset.Set{Name: name, Namespace: namespace})
}
