package soak

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

func TestPlan(t *testing.T) {
	const many = 2000
	steps, faults := map[string]int{}, map[faultKind]int{}
	a, b, other := newPlan(7, 1, usual), newPlan(7, 1, usual), newPlan(8, 1, usual)
	same := true
	for range many {
		f := a.nextFault()
		if f != b.nextFault() {
			t.Fatal("one seed has two schedules")
		}
		same = same && f == other.nextFault()
		faults[f.kind]++
	}
	if same {
		t.Error("two seeds have one schedule")
	}
	for _, s := range []shape{embedded, moving} {
		p := newPlan(7, 1, s)
		for range many {
			faults[p.nextFault().kind]++
		}
	}
	for b := range faultKind(nFaults) {
		if faults[b] == 0 {
			t.Errorf("%s never happens", b)
		}
	}
	people := newPlan(7, 0, usual)
	for range many {
		s := people.nextStep()
		steps[s.kind()]++
		if s.to < 0 || s.to > newest() || s.action == move && s.from == s.to || s.upto < 1 || s.upto > len(s.order) {
			t.Fatalf("got the step %+v", s)
		}
	}
	for _, kind := range []string{"upgrade", "rollback", "abandoned upgrade", "abandoned rollback", "role change", "rejoin",
		"rollback that is asked for", "abandoned rollback that is asked for",
	} {
		if steps[kind] == 0 {
			t.Errorf("there is never a step %q", kind)
		}
	}
}

// TestPlan_moving: with any seed, about ten minutes have two rollbacks that are asked for, and three
// changes of the service.
func TestPlan_moving(t *testing.T) {
	for s := range uint64(100) {
		asked, changes, people := 0, 0, newPlan(s, 0, moving)
		for range 27 {
			if people.nextStep().asked {
				asked++
			}
		}
		for i := range uint64(lanes) {
			weather := newPlan(s, 1+i, moving)
			for range 60 {
				if weather.nextFault().kind == changeServices {
					changes++
				}
			}
		}
		if asked < 2 || changes < 3 {
			t.Errorf("seed %d: got %d rollbacks that are asked for, and %d changes of the service, want 2 and 3", s, asked, changes)
		}
	}
}

// TestReleases checks that the loader accepts the soak's bundles, and that each
// release can be rolled out (docs/protocol.md#releases-that-can-roll).
func TestReleases(t *testing.T) {
	dir := t.TempDir()
	if err := writeBundles(dir, [5]bool{2: true}); err != nil {
		t.Fatal(err)
	}
	known, err := judged(dir)
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for i, r := range releases {
		for build := range builds {
			if err := selectBuild(dir, i, build); err != nil {
				t.Fatal(err)
			}
			b, err := bundle.Load(bundleDir(dir, i))
			if err != nil {
				t.Fatal(err)
			}
			want := known[builds*i+build]
			if b.Version.Release != want.Release || len(b.Objects) != len(want.Forms) || b.Digest != want.Digest || b.PruneImmediately != (i == 2) {
				t.Errorf("%s, build %d: got release %s with %d objects, want %d", r.name, build, b.Version, len(b.Objects), len(want.Forms))
			}
			digests[b.Digest] = true
		}
		before := known[max(0, builds*(i-1))]
		if before.Release.Less(known[builds*i].M) && before.Release.Less(known[builds*i].A) && i > 0 {
			t.Errorf("%s cannot be rolled out over %s", r.name, releases[i-1].name)
		}
	}
	if len(digests) != builds*len(releases) {
		t.Errorf("got %d digests, want one for each build", len(digests))
	}
}

func TestFormOf(t *testing.T) {
	for _, k := range keptObjects {
		for _, form := range k.forms {
			if form == "" {
				continue
			}
			live := k.object(form)
			live.SetUID("1")
			if got := k.formOf(live.Object); got != form {
				t.Errorf("%s: got form %q, want %q", k.ref(), got, form)
			}
			if k.kind != "ConfigMap" {
				continue
			}
			live.Object["data"].(map[string]any)["form"] = "edited"
			if got := k.formOf(live.Object); got != "" {
				t.Errorf("%s: got form %q of an edited object", k.ref(), got)
			}
		}
	}
}

func TestReasonIn(t *testing.T) {
	refusal := "[+]shutdown ok\n[-]compatible failed: ReleaseTooOld: release 1.3.0 is below 1.4.0\nreadyz check failed\n"
	if got := reasonIn(refusal); got != protocol.ReleaseTooOld {
		t.Errorf("got %q, want %q", got, protocol.ReleaseTooOld)
	}
	if got := reasonIn("ok"); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

func TestVariant(t *testing.T) {
	variants := map[variant]bool{}
	expiring := 0
	for n := range uint64(100) {
		v := newVariant(n)
		if v != newVariant(n) {
			t.Fatal("one seed has two variants")
		}
		variants[v] = true
		if v.expire {
			expiring++
		}
	}
	if len(variants) < 10 || expiring < 20 || expiring > 80 {
		t.Errorf("got %d variants of 100 seeds, %d of them with records that expire", len(variants), expiring)
	}
}

func TestFaultNames(t *testing.T) {
	names := slices.Sorted(slices.Values(faultNames[:]))
	if len(slices.Compact(names)) != nFaults || slices.Contains(names, "") {
		t.Errorf("got names %q, want one for each of %d faults", names, nFaults)
	}
}

// TestCuts: a cut has an opposite, as seen by the other side of the connection.
func TestCuts(t *testing.T) {
	for _, cut := range cuts {
		back, found := opposite[cut]
		if !found || opposite[back] != cut {
			t.Errorf("got %d as the opposite of %d, and %d as that of it", back, cut, opposite[back])
		}
	}
	if opposite[etcdtest.BlackholeRequests] != etcdtest.BlackholeResponses {
		t.Error("the requests of one side are not the responses of the other")
	}
}

// TestPartitions: each way to cut nodes off happens, and only existing nodes are named.
func TestPartitions(t *testing.T) {
	p, texts := newPlan(7, 1, embedded), map[string]bool{}
	p.only = []string{cutNodes.String()}
	for range 2000 {
		f := p.nextFault()
		if f.another() == f.node {
			t.Fatalf("%s is cut off from itself", nodeNames[f.node])
		}
		texts[f.describeNodes()] = true
	}
	n := embedded.nodes
	if want := n*(n-1)*nDirections + n*nDirections + 1; len(texts) != want {
		t.Errorf("got %d kinds of partitions, want %d: %v", len(texts), want, texts)
	}
}
