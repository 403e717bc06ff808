package protocol

import "fmt"

// State says whether the leader has finished (DONE) or is changing the objects
// (WORKING).
type State int

// The states of a status. The zero value means "not set" and makes a status
// corrupt.
const (
	StateUnset State = iota
	Done
	Working
)

// String returns DONE, WORKING or UNSPECIFIED.
func (s State) String() string {
	return nameOf(s, "UNSPECIFIED", "DONE", "WORKING")
}

// Status is the reconciler status, the one status key of etcd. Version and
// MinCompatible decide which nodes may be ready; leaders use the other fields
// for their own decisions (docs/protocol.md#keys).
type Status struct {
	State         State
	Version       Version // all objects are at least of its release
	MinCompatible Release // the lowest release that may serve

	Leader       NodeID // who wrote it; empty: written by hand
	Epoch        int64  // of the leader that wrote it; 0: written by hand
	DrainedEpoch int64  // the highest epoch whose leader ended all its requests

	Digest         string  // of the content; empty: unknown
	Bundle         string  // the name of its bundle; empty: unknown
	ContentRelease Release // of the content; Version.Release where it was not set
	ContentEpoch   int64   // grows with each change of content; 0: unknown
}

// String prints the status canonically, for logs and golden tests.
func (s Status) String() string {
	text := fmt.Sprintf("%s version=%s min=%s content=%s@%d digest=%s epoch=%d drained=%d leader=%s",
		s.State, s.Version, s.MinCompatible, s.ContentRelease, s.ContentEpoch, s.Digest, s.Epoch, s.DrainedEpoch, s.Leader)
	if s.Bundle != "" {
		text += " bundle=" + s.Bundle
	}
	return text
}

// StatusKind is the condition of the status key.
type StatusKind int

// The kinds of a status. The zero value means "not read yet".
const (
	StatusUnknown StatusKind = iota
	StatusAbsent
	StatusUndecodable
	StatusPresent
)

// StatusView is the status key as it was read at one revision. Status is set only
// where Kind is StatusPresent, Problem only where it is StatusUndecodable.
type StatusView struct {
	Kind    StatusKind
	Status  Status
	Problem string
	// Warning names the part of a present status that is not believed; empty: all
	// of it is believed.
	Warning  string
	Revision int64 // the key's mod revision; 0 while it is absent
}

// String prints the view canonically.
func (v StatusView) String() string {
	switch v.Kind {
	case StatusPresent:
		return fmt.Sprintf("%s (revision %d)", v.Status, v.Revision)
	case StatusUndecodable:
		return fmt.Sprintf("corrupt: %s (revision %d)", v.Problem, v.Revision)
	case StatusAbsent:
		return "absent"
	case StatusUnknown:
	}
	return "unknown"
}

// target returns the status in which this leader's work ends: DONE, with its
// own version and minApiserverRelease. It keeps the content epoch and the
// drained epoch of now (docs/protocol.md#leader-rules).
func target(now Status, local Local) Status {
	return Status{
		State:          Done,
		Version:        local.Version,
		MinCompatible:  local.Constraints.MinAPIServer,
		Leader:         local.ID,
		Epoch:          local.Epoch,
		DrainedEpoch:   now.DrainedEpoch,
		Digest:         local.Digest,
		Bundle:         local.Bundle,
		ContentRelease: local.Version.Release,
		ContentEpoch:   now.ContentEpoch,
	}
}

// restrict returns the intersection of now and the needs of the local content: it
// admits only nodes that fit the objects before and after
// (docs/protocol.md#rule-wait-for-nodes). The content of the status stays as it
// is.
func restrict(now Status, local Local) Status {
	out := now
	out.State = Working
	out.Leader = local.ID
	out.Epoch = local.Epoch
	if local.Version.Release.Less(now.Version.Release) {
		out.Version = local.Version
	}
	if now.MinCompatible.Less(local.Constraints.MinAPIServer) {
		out.MinCompatible = local.Constraints.MinAPIServer
	}
	return out
}

// Covered returns one content that bounds all contents that may be present while
// s is the status: by the invariant Covers their release is at least s's version,
// and their minApiserverRelease at most s's minimum. A mark that was deleted is
// written again from it. The stamps on the objects would bound them too low: an
// object that no content changed keeps the oldest stamp.
func (s Status) Covered() Content {
	return Content{
		Release:     s.Version.Release,
		Constraints: Constraints{MinAPIServer: s.MinCompatible},
		Bundle:      s.Bundle,
		Epoch:       max(1, s.ContentEpoch), // a status written by hand may name none
	}
}

// rebuild returns a status that excludes no more than any status since the mark
// was last written: WORKING, with the lowest release and the highest
// minApiserverRelease of all content that may be present
// (docs/protocol.md#rule-rebuild-status). The mark must contain entries.
func rebuild(mark Mark, local Local) Status {
	newest := mark.newest()
	out := Status{
		State:          Working,
		Version:        Version{Release: newest.Release},
		Leader:         local.ID,
		Epoch:          local.Epoch,
		Digest:         newest.Digest,
		Bundle:         mark.Bundle(),
		ContentRelease: newest.Release,
		ContentEpoch:   newest.Epoch,
	}
	for _, e := range mark.Entries {
		if e.Release.Less(out.Version.Release) {
			out.Version = Version{Release: e.Release}
		}
		if out.MinCompatible.Less(e.Constraints.MinAPIServer) {
			out.MinCompatible = e.Constraints.MinAPIServer
		}
	}
	return out
}
