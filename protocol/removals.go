package protocol

import "slices"

// removalsDue reports whether objects that the bundle dropped may be deleted: no node
// of another release is registered any more whose gate may be open
// (docs/protocol-objects.md#removals): an older node needs the objects of its release, and in a
// rollback so does a newer one. A corrupt record may be of any release, so it counts as
// another one. So does an expired one: removals can wait, and its node may start again.
func removalsDue(f Fleet, own Release) bool {
	return !slices.ContainsFunc(f.Records, func(r *Record) bool {
		return r.MayServe() && (r.Problem != "" || r.Node.Version.Release != own)
	})
}
