package quorum

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/test/prometheus"
)

// watched starts a Prometheus that scrapes the nodes, and a node of its own that can save no snapshots, and fills the
// database of that one.
func (s *situations) watched() {
	s.Helper()
	var err error
	if s.prom, err = prometheus.Try(s.T, prometheus.Client{}); err != nil {
		s.Run("alerts", func(t *testing.T) { t.Skipf("SKIPPED, NOT TESTED: %v", err) })
		return
	}
	for _, n := range s.nodes {
		s.prom.Scrape(n.Listen())
	}
	alone := s.rig.Node("alone")
	s.must(os.Mkdir(alone.Dir, 0o700))
	s.must(os.WriteFile(filepath.Join(alone.Dir, "snapshots"), nil, 0o600))
	s.start(alone, "--etcd-quota-bytes=16777216", "--snapshot-every=1s")
	alone.AwaitRunning()
	s.prom.Scrape(alone.Listen())
	fill(s.T, alone.Client())
	s.alone = alone
}

// fires waits until each of these alerts has fired for the store of a node.
func (s *situations) fires(n *Node, alerts ...string) {
	s.Helper()
	if s.prom == nil {
		return
	}
	s.prom.Fires(s.prom.Store(n.ID), alerts...)
	s.caused = append(s.caused, alerts...)
}

// wantCaused requires that the situations caused each alert about members.
func (s *situations) wantCaused() {
	s.Helper()
	if s.prom != nil {
		s.fires(s.alone, "DatabaseNearlyFull", "SnapshotOld")
		KillAll(s.alone)
	}
	for _, name := range prometheus.OfMembers() {
		if s.prom != nil && !slices.Contains(s.caused, name) {
			s.Errorf("no situation caused %s", name)
		}
	}
}
