package status

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Decode returns a view of the status key. nil means that the key is missing. A
// value without a state, a version or a minimum compatible release, or one that
// cannot be decoded, becomes a view of kind StatusUndecodable, never an error.
func Decode(kv *etcd.KV) protocol.StatusView {
	if kv == nil {
		return protocol.StatusView{Kind: protocol.StatusAbsent}
	}
	s, err := decode(kv.Value)
	if err != nil {
		return protocol.StatusView{Kind: protocol.StatusUndecodable, Problem: err.Error(), Revision: kv.ModRevision}
	}
	out := protocol.StatusView{Kind: protocol.StatusPresent, Status: s, Revision: kv.ModRevision}
	if n := s.ContentEpoch; n != 0 && !protocol.IsContentEpoch(n) {
		// The rest of the status is valid: a number that people wrote must not close
		// gates, nor stop the leader.
		out.Status.ContentEpoch = 0
		out.Warning = fmt.Sprintf("the content epoch %d in the status is not between 1 and %d and counts as unknown; the leader replaces it",
			n, int64(protocol.MaxContentEpoch))
	}
	return out
}

func decode(value []byte) (protocol.Status, error) {
	var m lockstepv1.ReconcilerStatus
	if err := proto.Unmarshal(value, &m); err != nil {
		return protocol.Status{}, fmt.Errorf("the value is not a status (length %d)", len(value))
	}
	state, ok := states[m.GetState()]
	if !ok {
		return protocol.Status{}, fmt.Errorf("unknown state %d", m.GetState())
	}
	version, err := lockstepv1.ToVersion(m.GetVersion())
	if err != nil {
		return protocol.Status{}, fmt.Errorf("version: %w", err)
	}
	if m.GetMinimumCompatibleRelease() == nil {
		return protocol.Status{}, fmt.Errorf("no minimum compatible release")
	}
	minimum, err := lockstepv1.ToRelease(m.GetMinimumCompatibleRelease())
	if err != nil {
		return protocol.Status{}, fmt.Errorf("minimum compatible release: %w", err)
	}
	content := version.Release
	if m.GetContentRelease() != nil {
		if content, err = lockstepv1.ToRelease(m.GetContentRelease()); err != nil {
			return protocol.Status{}, fmt.Errorf("content release: %w", err)
		}
	}
	return protocol.Status{
		State: state, Version: version, MinCompatible: minimum,
		Leader: protocol.NodeID(m.GetLeader()), Epoch: m.GetEpoch(), DrainedEpoch: m.GetDrainedEpoch(),
		Digest: m.GetBundleDigest(), ContentRelease: content, ContentEpoch: m.GetContentEpoch(),
		Bundle: protocol.KnownBundleName(m.GetBundle()),
	}, nil
}

// DecodeReplacement returns the replacement of the objects' bundle. nil means that the
// key is missing. A value without two valid bundle names counts as missing.
func DecodeReplacement(kv *etcd.KV) protocol.Replacement {
	var m lockstepv1.BundleReplacement
	if kv == nil || proto.Unmarshal(kv.Value, &m) != nil || !protocol.ValidBundleName(m.GetFrom()) || !protocol.ValidBundleName(m.GetTo()) {
		return protocol.Replacement{}
	}
	return protocol.Replacement{From: m.GetFrom(), To: m.GetTo(), Since: lockstepv1.ToTime(m.GetSince()), Revision: kv.ModRevision}
}

// EncodeReplacement returns the bytes of a replacement.
func EncodeReplacement(r protocol.Replacement) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&lockstepv1.BundleReplacement{
		From: r.From, To: r.To, Since: lockstepv1.FromTime(r.Since),
	})
}

var states = map[lockstepv1.ReconcilerStatus_State]protocol.State{
	lockstepv1.ReconcilerStatus_STATE_DONE:    protocol.Done,
	lockstepv1.ReconcilerStatus_STATE_WORKING: protocol.Working,
}

// updatedAt returns when the status was written; zero: unknown.
func updatedAt(value []byte) time.Time {
	var m lockstepv1.ReconcilerStatus
	if proto.Unmarshal(value, &m) != nil {
		return time.Time{}
	}
	return lockstepv1.ToTime(m.GetUpdatedAt())
}

// Unknown are the fields of a stored status that this program does not know, encoded. No
// decision uses them. Fields inside a version or a release are not among them: they
// belong to that version.
type Unknown string

// maxUnknown bounds Unknown, in bytes: every sidecar reads the status at each change.
const maxUnknown = 4 << 10

// UnknownIn returns the fields of a status that this program does not know. A status that
// is corrupt, or that contains too many of them, has none.
func UnknownIn(kv *etcd.KV) Unknown {
	var m lockstepv1.ReconcilerStatus
	if Decode(kv).Kind != protocol.StatusPresent || proto.Unmarshal(kv.Value, &m) != nil {
		return ""
	}
	fields := m.ProtoReflect().GetUnknown()
	if len(fields) > maxUnknown {
		return ""
	}
	return Unknown(fields)
}

// Value is a value of the status key.
type Value struct {
	protocol.Status
	Unknown Unknown // of the value that it replaces (docs/protocol.md#unknown-fields)
}

// Encode returns the bytes of a status that replaces none.
func Encode(s protocol.Status, now time.Time) ([]byte, error) { return Value{Status: s}.encode(now) }

// encode returns the bytes of s. The time is for people: no decision depends on it.
// It returns an error if Decode would not return the status again.
func (s Value) encode(now time.Time) ([]byte, error) {
	if s.ContentEpoch != 0 && !protocol.IsContentEpoch(s.ContentEpoch) {
		return nil, fmt.Errorf("the content epoch %d is not between 1 and %d", s.ContentEpoch, int64(protocol.MaxContentEpoch))
	}
	for _, r := range []protocol.Release{s.Version.Release, s.MinCompatible, s.ContentRelease} {
		if r.Major < 0 || r.Minor < 0 || r.Patch < 0 {
			return nil, fmt.Errorf("the release %s has a negative part", r)
		}
	}
	if s.Bundle != protocol.KnownBundleName(s.Bundle) {
		return nil, fmt.Errorf("the bundle's name %q is invalid", s.Bundle)
	}
	m := &lockstepv1.ReconcilerStatus{
		Version:                  lockstepv1.FromVersion(s.Version),
		MinimumCompatibleRelease: lockstepv1.FromRelease(s.MinCompatible),
		Leader:                   string(s.Leader),
		Epoch:                    s.Epoch,
		DrainedEpoch:             s.DrainedEpoch,
		BundleDigest:             s.Digest,
		ContentRelease:           lockstepv1.FromRelease(s.ContentRelease),
		ContentEpoch:             s.ContentEpoch,
		Bundle:                   s.Bundle,
		UpdatedAt:                lockstepv1.FromTime(now),
	}
	switch s.State {
	case protocol.Done:
		m.State = lockstepv1.ReconcilerStatus_STATE_DONE
	case protocol.Working:
		m.State = lockstepv1.ReconcilerStatus_STATE_WORKING
	case protocol.StateUnset:
		return nil, fmt.Errorf("the status has no state")
	}
	m.ProtoReflect().SetUnknown([]byte(s.Unknown))
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
