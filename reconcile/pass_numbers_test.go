package reconcile_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// driven is a leader whose status is not in etcd but here. The passes are real.
type driven struct {
	*rig
	in protocol.Input
}

// lead makes the newest bundle that of the leader.
func (d *driven) lead() {
	d.t.Helper()
	d.in.Local = protocol.Local{
		ID: "n", Version: protocol.Version{Release: d.content.Release}, Constraints: d.content.Constraints, Digest: d.content.Digest, Epoch: 7,
	}
}

// writeByHand writes a status whose content epoch is n. The rest is what a leader
// left that had finished the content of the rig.
func (d *driven) writeByHand(n int64) {
	d.t.Helper()
	value, err := proto.Marshal(&lockstepv1.ReconcilerStatus{
		State: lockstepv1.ReconcilerStatus_STATE_DONE, Version: &lockstepv1.Version{Release: lockstepv1.FromRelease(d.content.Release)},
		MinimumCompatibleRelease: lockstepv1.FromRelease(d.content.Constraints.MinAPIServer), BundleDigest: d.content.Digest, ContentEpoch: n,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.in.Status = status.Decode(&etcd.KV{Value: value, ModRevision: 1})
	if d.in.Status.Kind != protocol.StatusPresent || (d.in.Status.Warning == "") != (n == 0 || protocol.IsContentEpoch(n)) {
		d.t.Errorf("content epoch %d in the status: got %+v", n, d.in.Status)
	}
}

// settle carries out the leader's steps until it keeps the objects.
func (d *driven) settle() {
	d.t.Helper()
	var story []string
	for range 12 {
		step := protocol.Next(d.in)
		story = append(story, step.String())
		switch step.Kind {
		case protocol.StepHold:
			if s := d.in.Status.Status; s.State != protocol.Done || s.Digest != d.content.Digest || !protocol.IsContentEpoch(s.ContentEpoch) {
				d.t.Errorf("got %s\n%s", s, strings.Join(story, "\n"))
			}
			return
		case protocol.StepWrite:
			d.write(step.Status)
		case protocol.StepSurvey:
			mark, err := d.reconciler.Survey(d.t.Context(), step.Work, time.Time{})
			if err != nil {
				d.t.Fatal(err)
			}
			d.in.Mark = mark
		case protocol.StepReconcile:
			d.reconcile(step.Work)
		default:
			d.t.Fatalf("unexpected step\n%s", strings.Join(story, "\n"))
		}
	}
	d.t.Fatalf("the leader is not done after 12 steps; report %+v\n%s", d.report(), strings.Join(story, "\n"))
}

func (d *driven) write(s protocol.Status) {
	d.t.Helper()
	value, err := status.Encode(s, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	d.in.Status = status.Decode(&etcd.KV{Value: value, ModRevision: d.in.Status.Revision + 1})
}

func (d *driven) reconcile(work protocol.Work) {
	d.t.Helper()
	out, err := d.work(work)
	if err != nil {
		d.t.Fatal(err)
	}
	d.in.Mark = d.in.Mark.With(work.Content).After(work.Content, out)
	if out.Complete {
		d.in.Progress.Finished = work.Content
	}
}

// TestPass_numbersByHand: people write any number as content epoch into the status,
// into the mark, or into both. The leader reaches DONE, the mark is one that can be
// read, and the next upgrade is applied.
func TestPass_numbersByHand(t *testing.T) {
	r := newRig(t)
	d := &driven{rig: r}
	release := 0
	use := func() {
		release++
		d.use(fmt.Sprintf("1.%d.0", release), configMap("a", fmt.Sprintf("x: n%d", release)))
		d.lead()
		d.in.Mark, d.in.Progress = protocol.Mark{}, protocol.Progress{} // another leader
		r.restart()
	}
	use()
	d.in.Status = protocol.StatusView{Kind: protocol.StatusAbsent}
	d.settle()
	for _, n := range []int64{
		0, 1, protocol.MaxEpochGap - 1, protocol.MaxEpochGap, protocol.MaxEpochGap + 1, protocol.MaxContentEpoch - 1, protocol.MaxContentEpoch,
		protocol.MaxContentEpoch + 1, 1 << 53, math.MaxInt64, -1, math.MinInt64,
	} {
		for _, place := range []string{"status", "mark", "status and mark"} {
			t.Run(fmt.Sprintf("%d in the %s", n, place), func(t *testing.T) {
				d.t, r.t = t, t
				defer func() { d.in.Mark, d.in.Progress = protocol.Mark{}, protocol.Progress{}; r.restart() }()
				if strings.Contains(place, "status") {
					d.writeByHand(n)
				}
				if strings.Contains(place, "mark") {
					d.markByHand(n)
				}
				d.in.Mark, d.in.Progress = protocol.Mark{}, protocol.Progress{}
				r.restart()
				d.settle()
				d.wantMark()
				use()
				d.settle()
				d.wantMark()
				if got, _, _ := unstructured.NestedString(r.get(configMaps, r.ns, "a").Object, "data", "x"); got != fmt.Sprintf("n%d", release) {
					t.Errorf("got x: %q after the upgrade to 1.%d.0", got, release)
				}
			})
		}
	}
}

// markByHand gives every content epoch in the mark another number.
func (d *driven) markByHand(n int64) {
	d.t.Helper()
	d.patch(configMaps, d.ns, "set", fmt.Sprintf(
		`{"data":{"mark.json":"{\"firstDone\":true,\"leaderEpoch\":7,\"entries\":[{\"release\":\"%s\",\"minReconcilerRelease\":\"0.0.0\",`+
			`\"minApiserverRelease\":\"0.0.0\",\"digest\":\"%s\",\"contentEpoch\":%d}]}"}}`, d.content.Release, d.content.Digest, n))
}

// wantMark checks that the mark names the content of the status, and nothing else.
func (d *driven) wantMark() {
	d.t.Helper()
	s, mark := d.in.Status.Status, d.survey()
	if mark.Kind != protocol.MarkPresent || !mark.FirstDone || len(mark.Entries) != 1 || mark.Entries[0].Epoch != s.ContentEpoch || mark.Entries[0].Digest != s.Digest {
		d.t.Errorf("got the mark %+v beside the status %s", mark, s)
	}
}
