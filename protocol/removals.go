package protocol

import "slices"

// removalsDue reports whether objects that the bundle dropped may be deleted: no
// node of a release below own is registered any more whose gate may be open
// (docs/protocol.md#removals). A corrupt record may be of any release, so it
// counts as older. So does an expired one: removals can wait, and its node may
// start again.
func removalsDue(f Fleet, own Release) bool {
	return !slices.ContainsFunc(f.Records, func(r *Record) bool {
		return r.MayServe() && (r.Problem != "" || r.Node.Version.Release.Less(own))
	})
}
