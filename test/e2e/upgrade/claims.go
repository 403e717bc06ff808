package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// claimTimeout is how long a claim may take to become true. A kube-apiserver that just started
// takes seconds, and a minute on a machine that does much else.
const claimTimeout = 3 * time.Minute

// Claim is a sentence that can be checked.
type Claim struct {
	Text  string
	check func(context.Context) error
	// OfAllSteps: it is true only when all steps were taken.
	OfAllSteps bool
}

// Check waits until all claims are true at the same time, for at most claimTimeout. It
// returns for each claim why it is false; nil: it is true.
func Check(ctx context.Context, claims []Claim) []error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	errs := slices.Repeat([]error{errors.New("not checked in time")}, len(claims))
	// errs says which claims are false at the end.
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

// Claims returns the claims that must be true at the end of a step.
func (w *Walk) Claims(s Step) []Claim {
	leader := cmp.Or(s.Want.Leader, Leader)
	claims := []Claim{
		{Text: leaderText(leader), check: w.claimLeader(leader)},
		{Text: "the status is " + s.Want.Status, check: w.claimStatus(s.Want.Status)},
		{Text: blockersText(s.Want.Blockers), check: w.claimBlockers(s.Want.Blockers)},
		{Text: "a kubelet would find all nodes ready", check: w.claimReady},
		{Text: objectsText(s.Want), check: w.claimObjects(s.Want)},
	}
	if w.byCommand() {
		claims = append(claims,
			Claim{Text: w.buildsText(), check: w.claimBuilds},
			Claim{Text: "etcd has three members, and all of them vote", check: w.claimMembers})
	}
	return claims
}

// FinalClaims returns the claims that must be true after all steps.
func (w *Walk) FinalClaims() []Claim {
	claims := []Claim{
		{Text: "the status changed in this order, and in no other: " + arrows(statusHistory()), OfAllSteps: true, check: func(context.Context) error {
			return w.history.checkStatuses(statusHistory())
		}},
		{Text: "each object was written once for each bundle that changed it", OfAllSteps: true, check: func(context.Context) error {
			return w.history.checkWrites()
		}},
		{Text: "one node led at a time, and only that node wrote the status", check: func(context.Context) error { return w.history.checkLeaders() }},
		{Text: "every node stayed ready, except while it was upgraded", check: w.claimNone(&w.losses)},
		{Text: "no node was ready that the status did not admit", check: w.claimNone(&w.misfits)},
		w.ClientsClaim(),
	}
	if w.byCommand() {
		claims = append(claims, Claim{
			Text:  "no node was registered with a release before its old kube-apiserver had exited and its new one answered",
			check: w.claimRecords,
		})
	}
	return claims
}

// ClientsClaim returns the claim of FinalClaims about the clients.
func (w *Walk) ClientsClaim() Claim {
	return Claim{Text: "no request of a client failed", check: w.claimClients}
}

// claimClients requires that clients sent requests all the time, and that none failed.
func (w *Walk) claimClients(context.Context) error {
	sent, failed := w.Requests()
	if failed != nil || sent == 0 {
		return errors.Join(fmt.Errorf("there were %d requests", sent), failed)
	}
	return nil
}

// Writes counts the writes of the bundles' objects.
func (w *Walk) Writes() int { return w.history.writes() }

func blockersText(blockers []string) string {
	switch len(blockers) {
	case 0:
		return "no node blocks"
	case 1:
		return blockers[0] + " blocks"
	}
	return list(blockers) + " block"
}

func leaderText(leader string) string {
	if leader == NoLeader {
		return "no node leads"
	}
	return leader + " leads"
}

// buildsText says which version each kube-apiserver must report: "the kube-apiservers are
// v1 (c) and v2 (a and b)".
func (w *Walk) buildsText() string {
	nodes := map[string][]string{}
	for _, n := range w.nodes {
		n.mu.Lock()
		version := w.builds[n.release].version
		n.mu.Unlock()
		nodes[version] = append(nodes[version], n.id)
	}
	var parts []string
	for _, version := range slices.Sorted(maps.Keys(nodes)) {
		if len(nodes) == 1 {
			return "every kube-apiserver is " + version
		}
		parts = append(parts, version+" ("+list(nodes[version])+")")
	}
	return "the kube-apiservers are " + list(parts)
}

func objectsText(want Want) string {
	text := "every kube-apiserver has exactly the objects of " + want.Objects
	if want.Owed != "" {
		text = "every kube-apiserver has the objects of " + want.Objects + ", and still " + want.Owed
	}
	return text
}

// arrows omits the states: they would make the line too long.
func arrows(statuses []string) string {
	text := strings.Join(statuses, " > ")
	return strings.NewReplacer("DONE ", "", "WORKING ", "").Replace(text)
}

func (w *Walk) current() View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

func (w *Walk) claimLeader(want string) func(context.Context) error {
	return func(context.Context) error {
		if got := cmp.Or(w.current().Leader, NoLeader); got != want {
			return fmt.Errorf("got leader %q", got)
		}
		return nil
	}
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

func (w *Walk) claimReady(context.Context) error {
	var errs []error
	for _, n := range w.current().Nodes {
		if !n.Ready {
			errs = append(errs, fmt.Errorf("%s of %s is not ready: %s", n.ID, n.Release, n.Reason))
		}
	}
	return errors.Join(errs...)
}

func (w *Walk) claimNone(violations *[]error) func(context.Context) error {
	return func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return errors.Join(*violations...)
	}
}

// claimObjects reads each object from each kube-apiserver.
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
		return errors.New("exists, want that it was deleted")
	case desired == nil:
		return nil
	case live == nil:
		return errors.New("is missing")
	}
	return covers(live.Object, desired.Object, "")
}

// fetch returns nil if the object does not exist.
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
