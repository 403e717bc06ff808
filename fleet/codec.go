package fleet

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// Decode returns the fleet of the records and presences at one revision. Bytes
// that cannot be decoded become a record with a Problem, never an error
// (docs/protocol.md#snapshots).
func Decode(keys keyspace.Keys, nodes, presences etcd.Listing) protocol.Fleet {
	var d Decoder
	return d.Decode(keys, nodes, presences)
}

func decodeRecord(id protocol.NodeID, kv etcd.KV) protocol.Record {
	r := protocol.Record{ID: id, Revision: kv.ModRevision, Created: kv.CreateRevision, Writes: kv.Version}
	r.Node, r.Problem = decodeNode(id, kv.Value)
	return r
}

// decodeNode returns the content of a record, and why it is corrupt; empty: it is
// valid. A record without the controller role needs no version.
func decodeNode(id protocol.NodeID, value []byte) (protocol.Node, string) {
	var n lockstepv1.Node
	if err := proto.Unmarshal(value, &n); err != nil {
		return protocol.Node{}, "it is not a node record"
	}
	out := protocol.Node{ID: protocol.NodeID(n.GetId()), Roles: rolesOf(n.GetRoles()), Cordon: cordonOf(n.GetCordon())}
	if out.ID != id {
		return out, fmt.Sprintf("it is the record of node %q", n.GetId())
	}
	st := n.GetStatus()
	out.Address, out.Digest, out.BootID = st.GetAddress(), st.GetBundleDigest(), st.GetBootId()
	out.Bundle = protocol.KnownBundleName(st.GetBundle())
	out.ExpireAfter, out.Ephemeral, out.Serves = expireAfterOf(st), st.GetEphemeral(), st.GetServes()
	var err error
	if out.MinReconciler, err = lockstepv1.ToRelease(st.GetMinimumReconcilerRelease()); err != nil {
		return out, err.Error()
	}
	if st.GetVersion() == nil && !out.Roles.Controller && !out.Serves {
		return out, ""
	}
	if out.Version, err = lockstepv1.ToVersion(st.GetVersion()); err != nil {
		return out, err.Error()
	}
	return out, ""
}

// expireAfterOf returns how long the node's presence must be missing until leaders ignore its
// record. It is 0 if the record contains no valid, positive duration: that record blocks until
// it is removed.
func expireAfterOf(st *lockstepv1.NodeStatus) time.Duration {
	d := st.GetExpireAfter()
	if d == nil || d.CheckValid() != nil {
		return 0
	}
	return max(0, d.AsDuration())
}

func encodeExpireAfter(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func rolesOf(r *lockstepv1.Roles) protocol.Roles {
	return protocol.Roles{
		Controller: r.GetKubernetesController() != nil,
		Worker:     r.GetKubernetesWorker() != nil,
		Consensus:  r.GetConsensusMember() != nil,
	}
}

// Encode returns the bytes of a node record.
func Encode(n protocol.Node) []byte { return encodeOver(nil, n) }

// cordonOf returns a cordon. One with times that make no sense counts all the same: it
// lasts until people end it.
func cordonOf(c *lockstepv1.Cordon) protocol.Cordon {
	if c == nil {
		return protocol.Cordon{}
	}
	out := protocol.Cordon{
		Since: lockstepv1.ToTime(c.GetSince()), Until: lockstepv1.ToTime(c.GetUntil()),
		Message: shortenedTo(c.GetMessage(), protocol.MaxCordonMessage),
		By:      shortenedTo(c.GetBy(), protocol.MaxCordonMessage),
	}
	out.Turn = c.GetTurn()
	if !out.On() {
		out.Since = time.Unix(0, 0).UTC() // the message is there, and empty
	}
	return out
}

// encodeCordon returns the cordon over previous. Fields that a newer program added to it stay.
func encodeCordon(previous *lockstepv1.Cordon, c protocol.Cordon) *lockstepv1.Cordon {
	switch {
	case !c.On():
		return nil
	case previous == nil:
		previous = &lockstepv1.Cordon{}
	case cordonOf(previous) == c:
		return previous
	}
	previous.Since, previous.Until = lockstepv1.FromTime(c.Since), lockstepv1.FromTime(c.Until)
	previous.Message, previous.By = c.Message, c.By
	previous.Turn = c.Turn
	return previous
}

// encodeOver returns the bytes of a node record that replaces another one. Fields that a newer
// program added to the record, to its roles and to its cordon stay. Fields that it added to the
// status do not: they describe the components of another program.
func encodeOver(previous []byte, n protocol.Node) []byte {
	var m lockstepv1.Node
	if proto.Unmarshal(previous, &m) != nil || m.GetId() != string(n.ID) {
		m = lockstepv1.Node{}
	}
	m.Id = string(n.ID)
	m.Roles = encodeRoles(m.GetRoles(), n.Roles)
	m.Cordon = encodeCordon(m.GetCordon(), n.Cordon)
	m.Status = &lockstepv1.NodeStatus{
		Version:                  lockstepv1.FromVersion(n.Version),
		MinimumReconcilerRelease: lockstepv1.FromRelease(n.MinReconciler),
		Address:                  n.Address,
		BundleDigest:             n.Digest,
		BootId:                   n.BootID,
		ExpireAfter:              encodeExpireAfter(n.ExpireAfter),
		Serves:                   n.Serves,
		Ephemeral:                n.Ephemeral,
		Bundle:                   n.Bundle,
	}
	return lockstepv1.Marshal(&m)
}

// encodeRoles sets the known roles in out. It keeps the roles that this program does
// not know.
func encodeRoles(out *lockstepv1.Roles, r protocol.Roles) *lockstepv1.Roles {
	if out == nil {
		out = &lockstepv1.Roles{}
	}
	out.KubernetesController = present(r.Controller, out.KubernetesController)
	out.KubernetesWorker = present(r.Worker, out.KubernetesWorker)
	out.ConsensusMember = present(r.Consensus, out.ConsensusMember)
	return out
}

// present returns m, or a new message in its place, if want is true.
func present[T any](want bool, m *T) *T {
	switch {
	case !want:
		return nil
	case m == nil:
		return new(T)
	}
	return m
}

// withRoles changes the roles in the bytes of a record, and keeps everything else. It reports
// whether the change takes the controller role from a node whose gate may be open. If that node
// stopped, its gate counts as closed from now on.
func withRoles(id protocol.NodeID, value []byte, change RoleChange) (out []byte, takes bool, err error) {
	was, problem := decodeNode(id, value)
	if problem != "" {
		return nil, false, fmt.Errorf("the record is corrupt: %s", (&protocol.Record{ID: id, Problem: problem}).Remedy())
	}
	var n lockstepv1.Node
	if err := proto.Unmarshal(value, &n); err != nil {
		return nil, false, err // decodeNode did the same
	}
	n.Roles = encodeRoles(n.GetRoles(), change.Roles)
	takes = !change.Roles.Controller && (&protocol.Record{Node: was}).MayServe()
	if takes && change.Stopped && n.GetStatus() != nil {
		n.Status.Serves = false
	}
	return lockstepv1.Marshal(&n), takes, nil
}

// withCordon changes the cordon in the bytes of a valid record.
func withCordon(value []byte, cordon protocol.Cordon) ([]byte, error) {
	var n lockstepv1.Node
	if err := proto.Unmarshal(value, &n); err != nil {
		return nil, err // Decode did the same
	}
	n.Cordon = encodeCordon(n.GetCordon(), cordon)
	return lockstepv1.Marshal(&n), nil
}

// decodePresence never fails: the node is alive because the key exists, whatever
// its value.
func decodePresence(value []byte) protocol.Presence {
	var p lockstepv1.Presence
	if err := proto.Unmarshal(value, &p); err != nil {
		return protocol.Presence{}
	}
	return protocol.Presence{
		Instance:  p.GetInstance(),
		MachineID: p.GetMachineId(),
		Ready:     p.GetReady(),
		Reason:    protocol.Reason(p.GetReason()),
		Election:  protocol.ElectionState(p.GetElection()),
		Host:      p.GetHost(),
		Address:   p.GetAddress(),
		Warnings:  decodeWarnings(p.GetWarnings()),
		Endpoint:  decodeEndpoint(p.GetEndpoint()),

		APIServerDown: p.GetApiserverDown(),
		APIServer:     shortened(p.GetApiserverVersion()),
		Services:      shortened(p.GetServicesDigest()),
		Failing:       int(max(0, p.GetFailing())),
		Written:       lockstepv1.ToTime(p.GetWritten()),
	}
}

// decodeEndpoint returns the zero Endpoint if e is invalid: then its node does not take part.
func decodeEndpoint(e *lockstepv1.Endpoint) protocol.Endpoint {
	out := protocol.Endpoint{Port: int(e.GetPort()), Down: e.GetDown()}
	for _, text := range e.GetAddresses() {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" || ip.Is4In6() {
			continue
		}
		switch address := ip.String(); {
		case out.Address == "":
			out.Address = address
		case out.Secondary == "" && publish.FamilyOf(address) != publish.FamilyOf(out.Address):
			out.Secondary = address
		}
	}
	if out.Address == "" || out.Port < 1 || out.Port > 65535 {
		return protocol.Endpoint{}
	}
	return out
}

func encodeEndpoint(e protocol.Endpoint) *lockstepv1.Endpoint {
	if !e.TakesPart() {
		return nil
	}
	out := &lockstepv1.Endpoint{Addresses: []string{e.Address}, Port: int32(e.Port), Down: e.Down}
	if e.Secondary != "" {
		out.Addresses = append(out.Addresses, e.Secondary)
	}
	return out
}

// decodeWarnings reads at most protocol.MaxWarnings: any client of etcd can write a presence
// with more.
func decodeWarnings(from []*lockstepv1.Warning) []protocol.Warning {
	var out []protocol.Warning
	for _, w := range from[:min(len(from), protocol.MaxWarnings)] {
		out = append(out, protocol.Warning{
			Reason: protocol.Reason(shortened(w.GetReason())), Subject: shortened(w.GetSubject()), Message: shortened(w.GetMessage()),
			Since: lockstepv1.ToTime(w.GetSince()),
		})
	}
	return out
}

func encodeWarnings(from []protocol.Warning) []*lockstepv1.Warning {
	var out []*lockstepv1.Warning
	for _, w := range from[:min(len(from), protocol.MaxWarnings)] {
		out = append(out, &lockstepv1.Warning{
			Reason: string(w.Reason), Subject: shortened(w.Subject), Message: shortened(w.Message), Since: lockstepv1.FromTime(w.Since),
		})
	}
	return out
}

// shortened cuts a text of a warning, and makes it valid UTF-8: some of it comes
// from other programs.
func shortened(s string) string { return shortenedTo(s, protocol.MaxWarningMessage) }

func shortenedTo(s string, limit int) string {
	return strings.ToValidUTF8(protocol.Cut(s, limit), "")
}

// verdictSince returns when the presence's verdict began; zero: unknown.
func verdictSince(value []byte) time.Time {
	var p lockstepv1.Presence
	if proto.Unmarshal(value, &p) != nil {
		return time.Time{}
	}
	return lockstepv1.ToTime(p.GetSince())
}

func encodePresence(p protocol.Presence, since time.Time) []byte {
	return lockstepv1.Marshal(&lockstepv1.Presence{
		Instance:  p.Instance,
		MachineId: p.MachineID,
		Ready:     p.Ready,
		Reason:    string(p.Reason),
		Election:  string(p.Election),
		Since:     lockstepv1.FromTime(since),
		Host:      shortened(p.Host),
		Address:   shortened(p.Address),
		Warnings:  encodeWarnings(p.Warnings),
		Endpoint:  encodeEndpoint(p.Endpoint),

		ApiserverDown: p.APIServerDown,

		ApiserverVersion: shortened(p.APIServer),
		ServicesDigest:   shortened(p.Services),
		Failing:          int32(min(p.Failing, math.MaxInt32)),
		Written:          lockstepv1.FromTime(p.Written),
	})
}

// decodeStoreID returns the ID in the store key; empty: the value is missing or corrupt.
func decodeStoreID(value []byte) string {
	var s lockstepv1.Store
	if proto.Unmarshal(value, &s) != nil || !ValidStoreID(s.GetId()) {
		return ""
	}
	return s.GetId()
}

func encodeStoreID(id string) []byte { return lockstepv1.Marshal(&lockstepv1.Store{Id: id}) }

// unmarshal reports whether the bytes are a message, which it decodes.
func unmarshal(value []byte, m proto.Message) bool { return proto.Unmarshal(value, m) == nil }

// DecodeRollback returns the rollback of a listing that contains its key
// (docs/protocol-objects.md#rollback). A value without a release or an end counts as missing: no command
// writes it.
func DecodeRollback(key string, l etcd.Listing) protocol.Rollback {
	kv := l.Find(key)
	var m lockstepv1.Rollback
	if proto.Unmarshal(kv.Value, &m) != nil || m.GetTo() == nil || !m.GetUntil().IsValid() {
		return protocol.Rollback{}
	}
	to, err := lockstepv1.ToRelease(m.GetTo())
	if err != nil {
		return protocol.Rollback{}
	}
	return protocol.Rollback{
		To: to, By: m.GetBy(), Since: lockstepv1.ToTime(m.GetSince()), Until: m.GetUntil().AsTime(), Revision: kv.ModRevision,
	}
}

// EncodeRollback returns the bytes of a rollback.
func EncodeRollback(r protocol.Rollback) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&lockstepv1.Rollback{
		To: lockstepv1.FromRelease(r.To), By: r.By, Since: lockstepv1.FromTime(r.Since), Until: lockstepv1.FromTime(r.Until),
	})
}
