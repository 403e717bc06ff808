package reconcile

import (
	"log/slog"
	"maps"
	"sync"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/drift"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// env is what passes, Keep and previews of one set share.
type env struct {
	client         *kube.Client
	catalog        *exec.Catalog
	set            applyset.Set
	concurrency    int
	allowMassPrune bool
	log            *slog.Logger
	metrics        *metrics
	report         *event.Value[report.Report]
	memory         *memory

	// What follows belongs to the goroutine that makes a pass or keeps objects.
	fights drift.Fights
	drift  report.Drift // as the report shows it
}

func (e *env) gatherer(a exec.API) exec.Gatherer {
	return exec.Gatherer{API: a, Catalog: e.catalog, Set: e.set, Concurrency: e.concurrency}
}

// memory has the objects that are in place, from the last passes and repairs.
type memory struct {
	mu     sync.Mutex // mu guards placed
	placed map[applyset.Key]plan.Placed
}

// noteAll remembers objects that are in place.
func (m *memory) noteAll(objects map[applyset.Key]plan.Placed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(m.placed, objects)
}

// note remembers one object that is in place.
func (m *memory) note(k applyset.Key, o plan.Placed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.placed[k] = o
}

// known returns a copy of what was noted.
func (m *memory) known() map[applyset.Key]plan.Placed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.placed)
}

// forgetExcept forgets objects that are no longer wanted.
func (m *memory) forgetExcept(objects []plan.Wanted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[applyset.Key]plan.Placed{}
	for _, w := range objects {
		if was, known := m.placed[w.Key]; known {
			kept[w.Key] = was
		}
	}
	m.placed = kept
}
