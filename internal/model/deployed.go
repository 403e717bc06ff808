package model

// This file models kube-apiservers that are deployed apart from their sidecars, as by a kubelet
// (docs/protocol-nodes.md#apiserver-version).

// A sidecar writes its record only when the kube-apiserver of its node is of the bundle's
// release. Its bit follows the safeguards of bundle names.
const apiserverFirst safeguard = 1 << 49

// serving returns the content whose release the kube-apiserver of a node runs.
func (t *transition) serving(i int) uint8 {
	if n := &t.state.nodes[i]; t.cfg.Deployed {
		return n.deployed
	}
	return t.state.nodes[i].run
}

// otherAPIServer reports whether the kube-apiserver of a node is of another release than its
// bundle, or does not run.
func (t *transition) otherAPIServer(i int) bool {
	n := &t.state.nodes[i]
	return n.deployed == 0 || t.cfg.releaseOf(n.deployed) != t.cfg.releaseOf(n.run)
}

// deploy replaces the kube-apiserver of a node by one of the release that its sidecar runs.
func (t *transition) deploy(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.deployed == n.run {
		return false
	}
	n.deployed = n.run
	t.say("the kube-apiserver of %s is now that of %s", t.name(i), t.contentText(n.run))
	if t.cfg.Coarse && t.cfg.holds(registerFirst) {
		t.register(i)
	}
	return true
}
