package status

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A gate that closes and opens between two scrapes is counted, with the time for which it was
// closed, and the time of the reason that it has now grows with each scrape.
func TestMetrics_gate(t *testing.T) {
	clock := time.Unix(1e9, 0)
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	m.times.now = func() time.Time { return clock }
	ready := Verdict{Verdict: protocol.Verdict{Ready: true, Reason: protocol.Ready}}
	closed := Verdict{Verdict: protocol.Verdict{Reason: protocol.NotRegistered}}
	m.show(closed)
	clock = clock.Add(2 * time.Second)
	m.show(ready)
	for range 20 {
		clock = clock.Add(time.Second)
		m.show(closed)
		clock = clock.Add(50 * time.Millisecond)
		m.show(ready)
	}
	clock = clock.Add(5 * time.Second)
	want := map[string]float64{
		"lockstep_gate_changes_total NotRegistered": 21, "lockstep_gate_changes_total Ready": 21,
		"lockstep_gate_seconds_total NotRegistered": 3, "lockstep_gate_seconds_total Ready": 25,
		"lockstep_gate_changes_total Cordoned": 0, "lockstep_gate_seconds_total Cordoned": 0,
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			if strings.HasPrefix(f.GetName(), "lockstep_gate_") {
				got[f.GetName()+" "+series.GetLabel()[0].GetValue()] = series.GetCounter().GetValue()
			}
		}
	}
	for series, value := range want {
		if n, found := got[series]; !found || n != value {
			t.Errorf("%s: got %v (%t), want %v", series, n, found, value)
		}
	}
	if len(got) != 2*len(protocol.Reasons()) {
		t.Errorf("got %d series, want two for each reason", len(got))
	}
}
