package history

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLedger_namesObjects: an entry names the first objects that were repaired or removed, and counts the others once each.
func TestLedger_namesObjects(t *testing.T) {
	l, s := NewLedger("a", t0), &store{}
	var f Facts
	at := t0
	repair := func(objects ...string) {
		at = at.Add(time.Second)
		f = with(func(now *Facts) {
			now.Repairs, now.Repaired = f.Repairs+int64(len(objects)), append(f.Repaired, objects...)
		})
		l.Observe(at, f)
		s.write(l)
	}
	repair()
	const message = "an object that another client changed was repaired"
	for _, step := range []struct {
		objects []string
		want    string
	}{
		{[]string{`ConfigMap "ns/x"`}, message + `: ConfigMap "ns/x"`},
		{[]string{`ConfigMap "ns/x"`}, message + ` (2 times): ConfigMap "ns/x"`},
		{[]string{`ClusterRole "y"`, "Secret " + strings.Repeat("é", 300)}, message + ` (4 times): ConfigMap "ns/x", ClusterRole "y", Secret ` + strings.Repeat("é", 35) + "…"},
		{[]string{"d", "e", "d"}, message + ` (7 times): ConfigMap "ns/x", ClusterRole "y", Secret ` + strings.Repeat("é", 35) + "… and 2 more"},
	} {
		repair(step.objects...)
		if got := s.entries(Object); len(got) != 1 || got[0].Sentence() != step.want {
			t.Errorf("got  %v\nwant %s", got, step.want)
		}
	}
	if got := s.entries(Object)[0]; strings.Contains(got.Note(), "times") || !strings.Contains(got.Note(), `ClusterRole "y"`) {
		t.Errorf("got the note %q", got.Note())
	}
}

// TestLedger_namesRemovedObjects: the report has the names of the first objects only.
func TestLedger_namesRemovedObjects(t *testing.T) {
	l, s := NewLedger("a", t0), &store{}
	l.Observe(t0, steady())
	l.Observe(t0.Add(time.Second), with(func(f *Facts) {
		f.Pass, f.Pruned = t0.Add(time.Second), 25
		for i := range 20 {
			f.PrunedObjects = append(f.PrunedObjects, fmt.Sprintf("ConfigMap \"ns/%d\"", i))
		}
	}))
	s.write(l)
	want := `an object that the bundle dropped was removed (25 times): ConfigMap "ns/0", ConfigMap "ns/1", ConfigMap "ns/2" and 22 more`
	if got := s.entries(Object); len(got) != 1 || got[0].Sentence() != want {
		t.Errorf("got  %+v\nwant %s", got, want)
	}
}
