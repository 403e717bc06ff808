package protocol

import "slices"

// removalsDue reports whether objects that the bundle dropped may be deleted: no
// node of a release below own is registered any more whose gate may be open
// (docs/protocol.md#removals). A corrupt record may be of any release, so it
// counts as older. So does an expired one: removals can wait, and its node may
// start again.
func removalsDue(f Fleet, own Release) bool {
	return !slices.ContainsFunc(f.Records, func(r Record) bool {
		return r.MayServe() && (r.Problem != "" || r.Node.Version.Release.Less(own))
	})
}

// UpgradeReady reports whether the next upgrade may start: the status is DONE at
// the one release that all registered controllers have, and no record is corrupt
// (docs/protocol.md#releases-that-can-roll).
func UpgradeReady(v StatusView, f Fleet) bool {
	if v.Kind != StatusPresent || v.Status.State != Done {
		return false
	}
	controllers := 0
	for _, r := range f.Records {
		switch {
		case !r.MayServe():
		case r.Problem != "" || r.Node.Version.Release != v.Status.Version.Release:
			return false
		default:
			controllers++
		}
	}
	return controllers > 0
}
