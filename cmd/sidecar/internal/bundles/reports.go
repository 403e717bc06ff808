package bundles

import (
	"errors"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/rollout"
	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
)

// The output of commands with -o json (docs/operations.md#json). Fields are added, and never renamed or removed;
// each is always present, and lists are never null.

// newValidateReport describes a valid bundle, and the rollouts from these releases.
func newValidateReport(b *bundle.Bundle, from []origin) validateReport {
	about := newBundleReport(b)
	out := validateReport{Valid: true, Bundle: &about, Objects: len(b.Objects), Problems: []*strict.Problem{}, Rollouts: []rolloutReport{}}
	for _, o := range from {
		problem := rollout.Deadlock(o.release, b.Version.Release, b.Constraints)
		out.Valid = out.Valid && problem == ""
		out.Rollouts = append(out.Rollouts, rolloutReport{
			From: o.release.String(), Possible: problem == "", Problem: problem,
			Note:     rollout.RollbackRisk(o.release, b.Version.Release, b.Constraints),
			Replaces: o.replacedBy(b),
		})
	}
	return out
}

// fileProblems returns the problems of files that an error contains; another error stays one.
func fileProblems(err error) ([]*strict.Problem, error) {
	if load, found := errors.AsType[*strict.LoadError](err); found {
		return load.Problems, nil
	}
	return []*strict.Problem{}, err
}

// validateReport is the output of `bundle validate`.
type validateReport struct {
	Valid    bool              `json:"valid"`  // no problems, and each rollout is possible
	Bundle   *bundleReport     `json:"bundle"` // null: it is invalid
	Objects  int               `json:"objects"`
	Problems []*strict.Problem `json:"problems"`
	Rollouts []rolloutReport   `json:"rollouts"` // one for each --from
}

// rolloutReport reports whether nodes of a release can be upgraded one by one.
type rolloutReport struct {
	From     string `json:"from"`
	Possible bool   `json:"possible"`
	Problem  string `json:"problem"` // why not
	Note     string `json:"note"`    // the prospects of a way back
	// Replaces is the name of the bundle of From, if it is another one; empty: it is the
	// same, or From is a release.
	Replaces string `json:"replaces"`
}

func newBundleReport(b *bundle.Bundle) bundleReport {
	return bundleReport{
		Name: b.Name, Release: b.Version.Release.String(), Version: b.Version.String(), Digest: b.Digest,
		MinReconcilerRelease: b.Constraints.MinReconciler.String(), MinAPIServerRelease: b.Constraints.MinAPIServer.String(),
		APIServerVersion: b.APIServer,
	}
}

// diffReport is the output of `bundle diff`.
type diffReport struct {
	Differs   bool         `json:"differs"`
	Objects   []diffObject `json:"objects"`   // all but the unchanged
	PruneHeld string       `json:"pruneHeld"` // why removals wait; empty: they do not
}

// diffObject is an object that differs, fails, or is held.
type diffObject struct {
	Action    string `json:"action"`
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Message   string `json:"message"`
	Diff      string `json:"diff"` // unified; empty: the object fails, or is held

	of report.Previewed
}

func newDiffReport(preview report.Preview) (diffReport, error) {
	out := diffReport{Objects: []diffObject{}, PruneHeld: preview.PruneHeld}
	for _, o := range preview.Objects {
		item := diffObject{
			Action: string(o.Action), Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
			Message: terminal.Clean(o.Message), of: o,
		}
		switch o.Action {
		case report.ActionNone:
			continue
		case report.ActionHold, report.ActionFail:
		case report.ActionCreate, report.ActionChange, report.ActionRecreate, report.ActionPrune:
			out.Differs = true
			var err error
			if item.Diff, err = unified(o); err != nil {
				return out, err
			}
		}
		out.Objects = append(out.Objects, item)
	}
	return out, nil
}

// servicesReport is the output of `service validate`.
type servicesReport struct {
	Valid    bool              `json:"valid"`
	Services []serviceReport   `json:"services"` // in the order in which they start
	Problems []*strict.Problem `json:"problems"`
}

type serviceReport struct {
	Name        string `json:"name"`
	Role        string `json:"role"`
	Driver      string `json:"driver"`
	StopTimeout string `json:"stopTimeout"`
	Required    bool   `json:"required"`
}

func newServiceReports(services []service.Service) []serviceReport {
	out := []serviceReport{}
	for _, s := range services {
		out = append(out, serviceReport{s.Name, s.Role, s.Driver(), s.StopTimeout.String(), !s.Optional})
	}
	return out
}
