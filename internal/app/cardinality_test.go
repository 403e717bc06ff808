package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// series counts a sidecar's series of each metric.
func (s *sidecar) series() map[string]int {
	s.Helper()
	_, text := s.get("/metrics")
	out := map[string]int{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "lockstep_") {
			out[line[:strings.IndexAny(line, "{ ")]]++
		}
	}
	return out
}

// TestMetrics_cardinality: 200 nodes, of many releases and with turns, cordons and entries of the history, need as many
// series as one, and requests to the API add none: a Prometheus that scrapes 200 sidecars gets 200 times as many, not
// 40,000 times.
func TestMetrics_cardinality(t *testing.T) {
	api := newCountingAPI(t)
	server := etcdtest.New(t)
	raw := server.Client(t)
	s := start(t, configure(t, server.Endpoints()[0], api))
	s.awaitStatus("alone", func(r statusReport) bool { return r.Etcd.Connected && len(r.Fleet.Nodes) == 1 })
	before := s.series()

	const nodes = 200
	for i := range nodes {
		id := protocol.NodeID(fmt.Sprintf("cp-%03d", i))
		n := protocol.Node{ID: id, Roles: protocol.Roles{Controller: true}, Digest: fmt.Sprint("digest-", i)}
		n.Version.Release.Minor, n.BootID = int64(i%20), fmt.Sprint("boot-", i)
		put(t, raw, keys.Node(id), fleet.Encode(n))
		put(t, raw, keys.Presence(id), nil)
		entry, err := json.Marshal(history.Entry{Time: time.Now(), Kind: history.Gate, Node: id, Reason: protocol.Cordoned, Count: i})
		if err != nil {
			t.Fatal(err)
		}
		put(t, raw, keys.HistoryEntry(string(id)), entry)
	}
	s.awaitStatus("200 more nodes", func(r statusReport) bool { return len(r.Fleet.Nodes) == nodes+1 })
	for i := range nodes {
		_, _ = s.get(fmt.Sprintf("/nothing/%d?node=cp-%03d", i, i))
	}
	total := 0
	for name, n := range s.series() {
		total += n
		// A further status code of an endpoint is one of a few.
		if n != before[name] && name != "lockstep_httpapi_requests_total" {
			t.Errorf("%s: %d series became %d", name, before[name], n)
		}
	}
	if total > maxSeries {
		t.Errorf("a sidecar has %d series, more than %d", total, maxSeries)
	}
}

// maxSeries is for the series of one sidecar without services.
const maxSeries = 630
