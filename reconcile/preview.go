package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/preview"
	"github.com/lockstep-dev/lockstep/report"
)

// Preview simulates a pass over the newest bundle, by the API server's own dry runs. It never
// writes, needs no leadership and no lease, and may be called while another leader works.
func (r *Reconciler) Preview(ctx context.Context) (report.Preview, error) {
	b := r.cfg.Bundle.Get()
	if b == nil {
		return report.Preview{}, errors.New("preview: there is no bundle")
	}
	objects, err := r.wanted(b)
	if err != nil {
		return report.Preview{}, err
	}
	client, err := kube.New(preview.DryRun(r.cfg.RESTConfig), r.cfg.UserAgent)
	if err != nil {
		return report.Preview{}, fmt.Errorf("preview: %w", err)
	}
	defer client.CloseIdle()
	out, err := preview.Run(ctx, preview.Input{
		Gatherer: r.gatherer(exec.ReadOnly(client, r.set, time.Time{}), applyset.Members{}),
		Bundle:   b, Wanted: objects, AllowMassPrune: r.cfg.AllowMassPrune,
	})
	if err != nil {
		return report.Preview{}, fmt.Errorf("preview: %w", err)
	}
	return out, nil
}
