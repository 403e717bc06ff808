package exec

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAttempts(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "x", errors.New("modified"))
	busy := apierrors.NewTooManyRequests("busy", 2)
	for _, tt := range []struct {
		name     string
		err      error // of each attempt
		succeeds int   // the attempt that succeeds; 0: none
		attempts int
		min, max time.Duration
	}{
		{"a success is the end", nil, 1, 1, 0, 0},
		{"a rejection is the end", apierrors.NewBadRequest("no"), 0, 1, 0, 0},
		{"conflicts are tried again at once, at first", conflict, 3, 3, 0, 0},
		{"conflicts that last are tried again after pauses", conflict, 0, MaxAttempts, 600 * time.Millisecond, 1200 * time.Millisecond},
		{"the server's own pause counts", busy, 0, MaxAttempts, 8 * time.Second, 8 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, rereads, began := 0, 0, time.Now()
				err := Attempts{
					Try: func(context.Context) error {
						if tries++; tries == tt.succeeds {
							return nil
						}
						return tt.err
					},
					Reread: func(context.Context) error { rereads++; return nil },
				}.Run(t.Context())
				if (err == nil) != (tt.succeeds > 0) || tries != tt.attempts || rereads != tt.attempts-1 {
					t.Errorf("got %v after %d attempts and %d rereads, want %d attempts with a reread between two", err, tries, rereads, tt.attempts)
				}
				if took := time.Since(began); took < tt.min || took > tt.max {
					t.Errorf("took %s, want %s to %s", took, tt.min, tt.max)
				}
			})
		})
	}
}

// A field that stays immutable is not tried without end.
func TestAttempts_areBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		err := Attempts{
			Try:      func(context.Context) error { tries++; return errors.New("immutable") },
			Classify: func(context.Context, error) Class { return Conflict },
		}.Run(t.Context())
		if err == nil || tries != MaxAttempts {
			t.Errorf("got %v after %d attempts, want the error after %d", err, tries, MaxAttempts)
		}
	})
}
