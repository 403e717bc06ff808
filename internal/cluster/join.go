package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// joinSteps bring this node into the cluster of other nodes (docs/clusters.md#join).
// Until the marker's phase is Member, the directory of etcd may be made again: this
// node has never voted.
func joinSteps() []step {
	return []step{
		{"directory", openDirectory},
		{"marker", markJoin},
		{"key", ensureKey},
		{"enrol", enrolNode},
		{"etcd", clearEtcd},
		{"member", startJoinedMember},
		{"ready", awaitJoinedMember},
		{"voter", awaitVoter},
		{"authority", receiveAuthority},
		{"announce", announce},
		{"phase", markMember},
	}
}

// markJoin writes that this directory is for a join. Which cluster that is, the node
// learns when it enrols.
func markJoin(_ context.Context, f *flow) error {
	if f.marker.Intent != "" {
		return nil // an earlier run began
	}
	if _, err := f.token(); err != nil {
		return err // before anything is written
	}
	return f.writeMarker(func(m *datadir.Marker) {
		*m = datadir.Marker{
			Node: f.cfg.Node, Address: f.cfg.Address,
			PeerPort: f.cfg.PeerPort, ClientPort: f.cfg.ClientPort, JoinPort: f.cfg.JoinPort,
			Intent: datadir.Join, Phase: datadir.Begun,
		}
	})
}

// ensureKey makes the key of this node. It stays the same over all attempts: the use of
// the token is bound to it.
func ensureKey(_ context.Context, f *flow) error {
	if err := datadir.MakeDir(f.dir.PKI()); err != nil {
		return err
	}
	_, err := pki.EnsureKeyPair(f.dir.PKI())
	return err
}

// token returns the token that a person gave.
func (f *flow) token() (token.Token, error) {
	text, from := f.cfg.Token, "--token"
	if text == "" && f.cfg.TokenFile != "" {
		from = "--token-file " + f.cfg.TokenFile
		content, err := os.ReadFile(f.cfg.TokenFile)
		if err != nil {
			return token.Token{}, fmt.Errorf("--token-file: %w", err)
		}
		text = string(content)
	}
	if strings.TrimSpace(text) == "" || f.cfg.Join == "" {
		return token.Token{}, errors.New("this node has begun to join and is not a member yet: set --join and --token again; on a member, type sidecar cluster token create for another token")
	}
	parsed, err := token.Parse(text)
	if err != nil {
		return token.Token{}, fmt.Errorf("%s: %w", from, err)
	}
	return parsed, nil
}

// enrolNode asks a member to add this node. A repeated request with the same key gets
// the same answer. Once there is a log of etcd here, the node need not ask again.
func enrolNode(ctx context.Context, f *flow) error {
	if f.marker.Phase == datadir.Enrolled && f.disk.EtcdBegun() {
		return nil
	}
	request, err := f.request()
	if err != nil {
		return err
	}
	if !f.asked { // later, the last answer says more
		f.asked = true
		f.show("connecting to " + f.cfg.Join)
	}
	answer, err := f.join(ctx, request)
	if err != nil {
		return mayRepeat(err)
	}
	return f.enrolled(answer)
}

// request builds the request of this node to the member of --join. An error needs a person.
func (f *flow) request() (enrol.Request, error) {
	tok, err := f.token()
	if err != nil {
		return enrol.Request{}, err
	}
	key, err := pki.EnsureKeyPair(f.dir.PKI())
	if err != nil {
		return enrol.Request{}, err
	}
	return enrol.Request{
		URL: f.cfg.Join, Token: tok, Node: f.cfg.Node, Address: f.marker.Address,
		PeerPort: f.marker.PeerPort, ClientPort: f.marker.ClientPort, JoinPort: f.cfg.JoinPort, Key: key,
	}, nil
}

// mayRepeat marks an error as transient, unless a person must do something first.
func mayRepeat(err error) error {
	if _, untrusted := errors.AsType[*enrol.UntrustedError](err); untrusted {
		return err
	}
	if refused, is := errors.AsType[*enrol.RefusedError](err); is && refused.Permanent() {
		return err
	}
	return transient(err)
}

// enrolled writes the answer of the cluster: the files first, then the marker. Data
// that etcd began under another member ID is of no use: that member was removed.
func (f *flow) enrolled(a enrol.Answer) error {
	if err := f.signers.write(a.CA, a.CAKey); err != nil {
		return err
	}
	if _, err := pki.WriteCertificate(f.dir.PKI(), a.Certificate); err != nil {
		return err
	}
	id := keyspace.MemberID(a.MemberID)
	if err := f.clearReplaced(id); err != nil {
		return err
	}
	f.joining = a.Members
	return f.writeMarker(func(m *datadir.Marker) {
		m.Cluster, m.CAHash, m.Phase = a.Cluster, pki.HashOf(a.CA).String(), datadir.Enrolled
		m.MemberID, m.EtcdClusterID = id, keyspace.MemberID(a.EtcdClusterID)
	})
}

// startJoinedMember starts the member that was added. While it is a learner, it cannot
// serve this sidecar, so the client uses the other members too.
func startJoinedMember(ctx context.Context, f *flow) error {
	if f.current() != nil {
		return nil
	}
	var others []string
	for _, m := range f.joining {
		if !m.Learner && len(m.ClientURLs) > 0 {
			others = append(others, m.ClientURLs[0])
		}
	}
	if len(others) > 0 { // else others are from the list on the disk, if there is one
		f.shared.setOthers(others)
	}
	return f.startJoined(ctx, f.joining)
}

// awaitJoinedMember waits until the member receives the data of the cluster. etcd does
// not begin a log if its initial members differ from the cluster's: another node was
// added meanwhile. Then awaitJoinedMember starts the member again with the present
// members.
func awaitJoinedMember(ctx context.Context, f *flow) error {
	if f.current() == nil { // this step is run again
		for _, run := range []func(context.Context, *flow) error{enrolNode, clearEtcd, startJoinedMember} {
			if err := run(ctx, f); err != nil {
				return err
			}
		}
	}
	for {
		limited, cancel := context.WithTimeout(ctx, othersPause)
		err := f.awaitBegun(limited)
		waits := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		cancel()
		if waits {
			err = f.stillJoining(ctx)
		}
		if _, again := errors.AsType[transientError](err); again {
			f.endMember()
		}
		if !waits || err != nil {
			return err
		}
	}
}

// stillJoining asks again whether this member belongs to the cluster, while it waits for the
// others: a member that was killed before etcd applied its first entry knows no other member,
// and never learns from them that it was removed. The answer to the same key is the same
// member, or another one, as which this node must begin again. An error that is not transient
// says that the node was removed.
func (f *flow) stillJoining(ctx context.Context) error {
	var answer enrol.Answer
	request, err := f.request()
	if err == nil {
		answer, err = f.join(ctx, request)
	}
	if refused, is := errors.AsType[*enrol.RefusedError](err); is && refused.Removed() {
		return err
	}
	if err != nil {
		f.show(fmt.Sprintf("the etcd member waits for the other members, and whether it is one of them still is not known: %v", err))
		return nil
	}
	if keyspace.MemberID(answer.MemberID) == f.marker.MemberID {
		return nil
	}
	f.endMember() // its directory is about to be deleted
	if err := f.enrolled(answer); err != nil {
		return err
	}
	return transient(errors.New("the cluster has removed the member that was here, and added this node again as another one"))
}

// awaitVoter waits, without a limit, until the sidecar beside etcd's leader, or one in its place,
// makes this member a voter.
func awaitVoter(ctx context.Context, f *flow) error {
	began := time.Now()
	for {
		leader, votes := f.votes(ctx)
		if votes {
			return nil
		}
		if time.Since(began) > startPatience {
			f.show(waitsForVote(leader, f.joining))
		}
		if f.current().ended() {
			return f.memberEnded(f.current())
		}
		if !backoff.Sleep(ctx, voterPause) {
			return ctx.Err()
		}
	}
}

// waitsForVote says which sidecar a learner waits for. leader is the ID of etcd's leader; 0: not known.
func waitsForVote(leader uint64, members []etcd.Member) string {
	which := "the sidecar beside etcd's leader"
	if i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.ID == leader && m.Name != "" }); i >= 0 {
		which = fmt.Sprintf("the sidecar of node %q, beside etcd's leader,", members[i].Name)
	}
	return fmt.Sprintf("this member receives the data and does not vote yet; %s asks for its vote once it has the data, or %s later the sidecar of another voter; "+
		"if this lasts, check that these sidecars run", which, membership.StandInAfter)
}

// answerJoins serves the join port until ctx ends.
func (m *Manager) answerJoins(ctx context.Context) error {
	at := net.JoinHostPort(m.shared.value.Get().Address, strconv.Itoa(m.cfg.Embedded.JoinPort))
	pauses := backoff.Backoff{First: firstPause, Max: maxPause}
	for {
		listener, err := allowance.Listen(at)
		if err == nil {
			return m.enrol.Run(ctx, listener)
		}
		m.log.Warn("other nodes cannot join here, trying again", "err", err)
		if !pauses.Sleep(ctx) {
			return ctx.Err()
		}
	}
}
