package report

import "testing"

func TestAddFailure(t *testing.T) {
	var r Reconcile
	for range maxFailures + 2 {
		r.AddFailure(Failure{Object: `ConfigMap "n/a"`, Message: "rejected"})
	}
	if len(r.Failures) != maxFailures || r.TotalFailures != maxFailures+2 {
		t.Errorf("got %d failures of %d, want %d of %d", len(r.Failures), r.TotalFailures, maxFailures, maxFailures+2)
	}
}

func TestHeld(t *testing.T) {
	r := Reconcile{Objects: Objects{Owed: 3}}
	if got := r.Held(); got != 0 {
		t.Errorf("without a brake: got %d held objects", got)
	}
	r.PruneHeld = "the bundle is empty"
	if got := r.Held(); got != 3 {
		t.Errorf("with a brake: got %d held objects, want 3", got)
	}
}

func TestFightMessage(t *testing.T) {
	for _, tt := range []struct {
		fight Fight
		want  string
	}{
		{
			Fight{Manager: "kubectl-edit", Fields: []string{".data.x", ".data.y"}, Repairs: 9},
			`field manager "kubectl-edit" keeps changing .data.x, .data.y (repaired 9 times); ` +
				"stop that writer, or leave .data.x, .data.y of this object out of the bundle",
		},
		{
			Fight{Repairs: 1},
			"another writer keeps changing this object (repaired once); stop that writer, or leave this object out of the bundle",
		},
	} {
		if got := tt.fight.Explained().Message; got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
