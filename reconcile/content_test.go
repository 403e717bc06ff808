package reconcile

import "github.com/lockstep-dev/lockstep/protocol"

func release(major, minor, patch int64) protocol.Release {
	return protocol.Release{Major: major, Minor: minor, Patch: patch}
}

func content(r protocol.Release, epoch int64) protocol.Content {
	return protocol.Content{
		Release: r, Digest: "sha256:" + r.String(), Epoch: epoch,
		Constraints: protocol.Constraints{MinReconciler: release(0, 9, 0), MinApiserver: release(1, 0, 0)},
	}
}
