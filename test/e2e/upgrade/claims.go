package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// claimTimeout is how long a claim may take to come true. Only an apiserver
// that has just started takes seconds.
const claimTimeout = 30 * time.Second

// reasonTooOld is the gate's word for a node that the objects have left behind.
const reasonTooOld = "ReleaseTooOld"

// Claim is a sentence that can be checked.
type Claim struct {
	Text  string
	check func(context.Context) error
}

// Check waits until all claims are true at the same time, or for a while, and
// returns for each why it is not, nil where it is.
func Check(ctx context.Context, claims []Claim) []error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	errs := slices.Repeat([]error{errors.New("could not be checked in time")}, len(claims))
	// What is wrong in the end stands in errs.
	_ = cluster.Poll(ctx, func(ctx context.Context) error {
		got := make([]error, len(claims))
		for i, c := range claims {
			got[i] = c.check(ctx)
		}
		if ctx.Err() == nil {
			errs = got
		}
		return errors.Join(got...)
	})
	return errs
}

// Claims returns what holds at the end of a step.
func (w *Walk) Claims(s Step) []Claim {
	return []Claim{
		{Leader + " leads", w.claimLeader},
		{"the status is " + s.Want.Status, w.claimStatus(s.Want.Status)},
		{blockersText(s.Want.Blockers), w.claimBlockers(s.Want.Blockers)},
		{readyText(s.Want.KeptOut), w.claimReady(s.Want.KeptOut)},
		{objectsText(s.Want), w.claimObjects(s.Want)},
	}
}

// FinalClaims returns what holds once all steps were taken.
func (w *Walk) FinalClaims() []Claim {
	return []Claim{
		{"the status went " + arrows(statusHistory()) + ", and no other way", func(context.Context) error {
			return w.history.checkStatuses(statusHistory())
		}},
		{"each object was written once for each bundle that changed it: nothing went back and forth", func(context.Context) error {
			return w.history.checkWrites()
		}},
		{"no node that was not being upgraded stopped being ready", w.claimNone(&w.losses)},
		{"no node was ready that the status does not admit", w.claimNone(&w.misfits)},
	}
}

// Writes counts the writes of the bundles' objects.
func (w *Walk) Writes() int { return w.history.writes() }

func blockersText(blockers []string) string {
	switch len(blockers) {
	case 0:
		return "nobody blocks"
	case 1:
		return blockers[0] + " blocks"
	}
	return list(blockers) + " block"
}

func readyText(keptOut string) string {
	if keptOut == "" {
		return "all nodes are ready, as a kubelet sees it"
	}
	return "all nodes but " + keptOut + " are ready, as a kubelet sees it; " + keptOut + " is kept out: " + reasonTooOld
}

func objectsText(want Want) string {
	text := "every API server shows the objects of " + want.Objects + ", no more and no fewer"
	if want.Owed != "" {
		text = "every API server shows the objects of " + want.Objects + ", and still " + want.Owed
	}
	return text
}

// arrows leaves out the states: they make the line long.
func arrows(statuses []string) string {
	text := strings.Join(statuses, " > ")
	return strings.NewReplacer("DONE ", "", "WORKING ", "").Replace(text)
}

func (w *Walk) current() View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

func (w *Walk) claimLeader(context.Context) error {
	if got := w.current().Leader; got != Leader {
		return fmt.Errorf("got leader %q", got)
	}
	return nil
}

func (w *Walk) claimStatus(want string) func(context.Context) error {
	return func(context.Context) error {
		if got := w.current().Status; got != want {
			return fmt.Errorf("got %s", got)
		}
		return nil
	}
}

func (w *Walk) claimBlockers(want []string) func(context.Context) error {
	return func(context.Context) error {
		var got []string
		for _, n := range w.current().Nodes {
			if n.Blocks {
				got = append(got, n.ID)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("got blockers %v", got)
		}
		return nil
	}
}

func (w *Walk) claimReady(keptOut string) func(context.Context) error {
	return func(context.Context) error {
		var errs []error
		for _, n := range w.current().Nodes {
			switch {
			case n.ID == keptOut && (n.Ready || n.Reason != reasonTooOld):
				errs = append(errs, fmt.Errorf("%s of %s: got ready %t, reason %q", n.ID, n.Release, n.Ready, n.Reason))
			case n.ID != keptOut && !n.Ready:
				errs = append(errs, fmt.Errorf("%s of %s is not ready: %s", n.ID, n.Release, n.Reason))
			}
		}
		return errors.Join(errs...)
	}
}

func (w *Walk) claimNone(found *[]error) func(context.Context) error {
	return func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return errors.Join(*found...)
	}
}

// claimObjects looks at each object at each API server.
func (w *Walk) claimObjects(want Want) func(context.Context) error {
	return func(ctx context.Context) error {
		var errs []error
		for _, n := range w.nodes {
			n.mu.Lock()
			client := n.client
			n.mu.Unlock()
			for _, obj := range w.bundles.all() {
				if err := w.checkObject(ctx, client, obj, want); err != nil {
					errs = append(errs, fmt.Errorf("apiserver %s: %s: %w", n.id, ref(obj), err))
				}
			}
		}
		return errors.Join(errs...)
	}
}

func (w *Walk) checkObject(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, want Want) error {
	live, err := fetch(ctx, client, obj)
	if err != nil {
		return err
	}
	desired := w.bundles.objects[want.Objects][ref(obj)]
	if ref(obj) == want.Owed {
		desired = obj
	}
	switch {
	case desired == nil && live != nil:
		return errors.New("is there, want that it is gone")
	case desired == nil:
		return nil
	case live == nil:
		return errors.New("is missing")
	}
	return covers(live.Object, desired.Object, "")
}

// fetch returns nil where there is no such object.
func fetch(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	var resource dynamic.ResourceInterface = client.Resource(gvr)
	if ns := obj.GetNamespace(); ns != "" {
		resource = client.Resource(gvr).Namespace(ns)
	}
	live, err := resource.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if apierrors.ReasonForError(err) == metav1.StatusReasonNotFound {
		return nil, nil
	}
	return live, err
}
