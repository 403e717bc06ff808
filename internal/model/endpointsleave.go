package model

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// This file models how a node leaves the Service kubernetes, and whose turn it is to write.

// stop stops the kube-apiserver of a node, if its address cannot leave the Service any more, as far as
// its sidecar observed. Then the sidecar ends.
func (s *endpointsState) stop(cfg *EndpointsConfig, i int) (what string, broken [2]string) {
	w := &s.writers[i]
	if s.stops == 0 || s.gone.has(i) || s.ready.has(i) || !s.part.has(i) {
		return "", broken
	}
	f := w.facts(cfg)
	own := protocol.Endpoint{Address: addressOf(i), Port: modelPort}
	part := publish.Part{Known: w.seen.known, Addresses: f.Current.Addresses, Kind: publish.Next(f).Kind}
	if publish.RemovalPending(f.Fleet, protocol.NodeID(addressOf(i)), own, []publish.Part{part}) && cfg.Off&leavesFirst == 0 {
		return "", broken
	}
	s.stops--
	s.gone |= 1 << i
	if s.object.own && s.object.set.has(i) && w.ready&w.part != 0 && cfg.asks("Leaves") {
		broken = [2]string{"Leaves", "a kube-apiserver stops while the Service leads to it, although its sidecar has observed another one that is ready"}
	}
	return "stops its kube-apiserver and ends", broken
}

// hasTurn reports whether a sidecar writes before the others if all see the same.
func (s *endpointsState) hasTurn(cfg *EndpointsConfig, i int) bool {
	if s.gone.has(i) {
		return false
	}
	w := endpointsWriter{revision: s.revision, ready: s.ready, part: s.part}
	if cfg.Off&turnTaken != 0 {
		w.ready |= s.gone
	}
	return publish.Delay(w.facts(cfg).Fleet, protocol.NodeID(addressOf(i))) == 0
}
