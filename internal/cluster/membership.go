package cluster

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// Membership is how this node belongs to its etcd cluster. An etcd that runs elsewhere, a
// creation, a join and a restart are ways to set it. Its readers need not know which of
// them it was.
type Membership struct {
	// From is the way that set it: a state that is not final.
	From State
	// Phase is the phase of the node's member. Unset: etcd runs elsewhere, or the node is
	// not in its cluster yet.
	Phase membership.Phase
	// Removed: people removed the node, and its sidecar ends.
	Removed bool

	// Address is the IP at which other nodes reach this one. Empty: etcd runs elsewhere, or the
	// node waits for an address.
	Address string
	// Servers are the client URLs of etcd. The first one is preferred.
	Servers []string
	// Local: the first one is this node's own member.
	Local bool
	// The files with the credentials, which this sidecar may renew; empty: etcd is used
	// without TLS.
	CAFile, CertFile, KeyFile string
	// Trust names the CAs in CAFile when the processes that read it at their start
	// were last due for a start.
	Trust string
}

// Equal reports whether both are the same.
func (m Membership) Equal(o Membership) bool {
	return m.From == o.From && m.Phase == o.Phase && m.Removed == o.Removed &&
		m.Address == o.Address && slices.Equal(m.Servers, o.Servers) && m.Local == o.Local &&
		m.CAFile == o.CAFile && m.CertFile == o.CertFile && m.KeyFile == o.KeyFile && m.Trust == o.Trust
}

// sharer is the one writer of the membership. The client uses the servers before others
// learn of them.
type sharer struct {
	client *etcd.Client
	log    *slog.Logger
	node   string // the node ID, where the sidecars run etcd
	value  *event.Value[Membership]
	// removed are the members that people removed.
	removed *event.Value[[]protocol.MemberRemoval]

	mu   sync.Mutex // mu guards the fields below, and the order of the values
	own  string     // the client URL of this node's member; empty: it never gets one
	used bool       // its own member is used
	// others are the other known servers: from the answer to a join, then from the list
	// of the members.
	others []string
	// reserve is one more server for the client, after all others; empty: none.
	reserve string
	asked   []string // the servers of the client, since the first change
}

func newSharer(client *etcd.Client, log *slog.Logger, first Membership) *sharer {
	return &sharer{
		client: client, log: log, value: event.New(first),
		removed: event.New[[]protocol.MemberRemoval](nil), others: client.Endpoints(),
	}
}

// ownURL returns the client URL of this node's member.
func (s *sharer) ownURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own
}

// follow publishes the phase of a marker that is on the disk, and once the trusted CAs. From the moment
// when its member works, this node uses it as the preferred server, and none of its own while it has none
// that works.
func (s *sharer) follow(l datadir.Layout, m datadir.Marker) {
	trust, err := trustOf(l)
	s.change(func(now *Membership) {
		if err == nil && now.Trust == "" { // later, only a restart of its readers changes it
			now.Trust = trust
		}
		was := now.Phase
		now.Phase, now.Removed = phaseOf(m.Phase), m.Phase == datadir.Removed
		switch m.Phase {
		case datadir.WithoutMember, datadir.Adding, datadir.Removed:
			s.used = false
		case datadir.Member:
			s.used = true
			if was == membership.Adding || was == membership.Leaving {
				s.log.Info("this node is a member of etcd now", "member", m.MemberID)
			}
		default: // on its way, or it leaves: a removal decides
		}
	})
}

// useOthers makes the client and the services use only the other servers.
func (s *sharer) useOthers() { s.change(func(*Membership) { s.used = false }) }

// alsoAsk gives the client one more server, after those that are known.
func (s *sharer) alsoAsk(url string) { s.change(func(*Membership) { s.reserve = url }) }

// list uses a new list of the members.
func (s *sharer) list(all []members.Member) {
	if len(all) > 0 {
		s.setOthers(members.Endpoints(s.node, all))
	}
}

// setOthers makes these the other known servers.
func (s *sharer) setOthers(urls []string) { s.change(func(*Membership) { s.others = urls }) }

// change runs do under mu, and then publishes the new membership.
func (s *sharer) change(do func(*Membership)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.value.Get()
	do(&now)
	servers := slices.DeleteFunc(slices.Clone(s.others), func(url string) bool { return url == s.own })
	if s.used {
		servers = append([]string{s.own}, servers...)
	}
	if len(servers) > 0 || now.Phase != membership.Leaving { // else the services keep their servers
		now.Servers, now.Local = servers, s.used
	}
	asked := servers
	if s.reserve != "" && len(servers) > 0 && !slices.Contains(servers, s.reserve) {
		asked = append(slices.Clone(servers), s.reserve)
	}
	if now.Equal(s.value.Get()) && slices.Equal(asked, s.asked) {
		return
	}
	if s.asked = asked; len(servers) == 0 { // none is known yet: the client keeps its servers
		s.value.Set(now)
		return
	}
	if err := s.client.SetEndpoints(asked); err != nil {
		s.log.Error("servers of etcd not used", "servers", servers, "err", err)
		return
	}
	s.value.Set(now)
}

// phaseOf returns the phase of a node's member.
func phaseOf(p datadir.Phase) membership.Phase {
	switch p {
	case datadir.Member:
		return membership.Working
	case datadir.Adding:
		return membership.Adding
	case datadir.Leaving:
		return membership.Leaving
	case datadir.WithoutMember:
		return membership.WithoutMember
	default: // on its way into the cluster, or removed
		return membership.PhaseUnset
	}
}
