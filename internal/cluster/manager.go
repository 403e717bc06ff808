package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/rotation"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/report"
)

// Config configures a Manager. Client and Log are required.
type Config struct {
	// Embedded is how this node runs a member of its own. Nil: etcd runs elsewhere.
	Embedded *Embedded
	// Client reaches etcd: the one elsewhere, or first the member of this node.
	Client *etcd.Client
	Log    *slog.Logger // without a worker, which each part adds
	// Reach is how Client was made.
	Reach etcd.Config

	Registerer prometheus.Registerer // nil: no metrics
	// AwaitServices waits until all services that read the file of the CA at their start work with
	// these CAs (Membership.Trust). Nil: there are none.
	AwaitServices func(ctx context.Context, trust string) error
}

// Embedded is how this node runs a member of its own.
type Embedded struct {
	DataDir string
	Node    string // the node ID
	// Address is the IP at which other nodes reach this one. The node waits for it while the
	// machine does not have it, and while it is empty and there is no default route.
	Address string
	// The ports at that address. JoinPort answers requests to join.
	PeerPort, ClientPort, JoinPort int
	// Join is the URL of the join port of a member; empty: a new cluster is created
	// in an empty directory.
	Join string
	// Token is the text that allows to join; TokenFile is a file with it. One of them
	// is needed with Join, until this node is a member.
	Token, TokenFile string
	// QuotaBytes is the size of the database at which etcd refuses writes; 0: the default of member.Spec.
	QuotaBytes int64
	// Command starts this program's hidden command for the member.
	Command []string
}

// HasMember reports whether this node has a member, or is about to get one with its
// cluster: not if etcd runs elsewhere (nil), nor if it has left the members.
func (e *Embedded) HasMember() bool {
	if e == nil {
		return false
	}
	marker, err := datadir.Layout(e.DataDir).ReadMarker()
	return err != nil || marker.Phase != datadir.WithoutMember && marker.Phase != datadir.Leaving
}

// attemptTimeout is how long a member may take for a request before another one is asked.
// When another leader is elected, a request ends earlier
// (docs/adr/0013-times-of-the-embedded-etcd.md).
const attemptTimeout = 500 * time.Millisecond

// EtcdConfig returns how a sidecar with a member reaches etcd: by its own member. The
// files may not exist yet.
func (e Embedded) EtcdConfig(prefix string) etcd.Config {
	files := datadir.Layout(e.DataDir)
	return etcd.Config{
		Endpoints: []string{e.clientURL()},
		CAFile:    files.CACert(), CertFile: files.NodeCert(), KeyFile: files.NodeKey(), Late: true,
		Prefix: prefix, AttemptTimeout: attemptTimeout, Advice: advice,
	}
}

// clientURL is the client URL of this node's member. A node without files may still wait for
// its address: then no request goes there.
func (e Embedded) clientURL() string {
	return "https://" + net.JoinHostPort(cmp.Or(e.Address, "localhost"), strconv.Itoa(e.ClientPort))
}

// FreeSpace is the remedy for a full or nearly full database of the etcd that the sidecars run.
const FreeSpace = "delete what is not needed, such as old Events, then type: sidecar cluster defrag"

// Restore is the remedy for members that are lost for good, without a majority (docs/clusters.md#restore). Each node shows
// it. It must be typed on a single node, which has a member: each restore makes a cluster of its own.
const Restore = "choose one node that has a member, and type there, and nowhere else: sidecar cluster snapshot lockstep.snapshot; stop the sidecars on all nodes; " +
	"on the chosen node: sidecar cluster restore lockstep.snapshot --confirm-stopped; start the sidecar there; for the other nodes: docs/clusters.md#restore"

// advice names the remedies for a member that cannot be used. The log of the sidecar
// there contains the reports of its process.
var advice = etcd.Advice{
	Closed:      "no etcd member runs there: check the sidecar of that node, and its log (worker=etcd-member)",
	Silent:      "check the sidecar of that node, its log (worker=etcd-member), and the network to it",
	Authority:   "it is not a member of this cluster, or a clock is wrong: see docs/clusters.md#refusals",
	Certificate: "that member rejects this node's certificate: check both clocks, and that both nodes are of the same cluster; if its CA was replaced while this node was removed, delete the data directory here, and join again",
	TLS:         "it is not a member of this cluster: see docs/clusters.md#refusals",
	Plain:       "it is not a member of this cluster: see docs/clusters.md#refusals",
	Full:        FreeSpace,
}

// Reach returns how a command reaches etcd through the data directory of a member on
// this machine. It only reads.
func Reach(dataDir, prefix string) (etcd.Config, error) {
	files := datadir.Layout(dataDir)
	marker, err := files.ReadMarker()
	switch {
	case errors.Is(err, datadir.ErrNoMarker):
		return etcd.Config{}, fmt.Errorf("data directory %q: %w: give --data-dir the directory of a sidecar that runs with --etcd=embedded", dataDir, err)
	case err != nil:
		return etcd.Config{}, err
	case !marker.Phase.InCluster():
		return etcd.Config{}, fmt.Errorf("data directory %q: it is not that of a member yet, or not any more (%s)", dataDir, marker.Phase)
	}
	endpoints := []string{marker.ClientURL()}
	if marker.Phase != datadir.Member { // its own one may not serve
		list, err := members.Read(files.Members())
		if err != nil {
			return etcd.Config{}, err
		}
		endpoints = members.Endpoints(marker.Node, list)
	}
	return etcd.Config{
		Endpoints: endpoints, Prefix: prefix,
		CAFile: files.CACert(), CertFile: files.NodeCert(), KeyFile: files.NodeKey(), Advice: advice,
	}, nil
}

// Status describes the way into the cluster.
type Status struct {
	State State
	Since time.Time
	// Transitions are the changes until now, the oldest first.
	Transitions []report.Transition
	// Problem is why the state is Failed, or why the current step waits; empty:
	// nothing is wrong.
	Problem string
	// StuckSince is since when, in the state Running, steps about the member have waited or failed; zero: they do not.
	StuckSince time.Time
}

// Manager brings the sidecar into its cluster. Its methods may be called from many
// goroutines.
type Manager struct {
	cfg    Config
	log    *slog.Logger
	status *event.Value[Status]
	member *event.Value[member.State]
	// measures are the measures of the member.
	measures *event.Value[member.Measures]

	held   *event.Value[bool]
	shared *sharer
	keeper *quorum.Keeper
	enrol  *enrol.Server
	node   atomic.Pointer[node] // since the end of its way into a cluster that the sidecars run; nil before

	observed *event.Value[[]Observed]
	health   *event.Value[[]protocol.Warning]
	rotation *event.Value[rotation.State]
	warned   bool // the problem was logged as a warning; only the goroutine of Run uses it
}

// NewManager returns a manager. It starts nothing and reads no file.
func NewManager(cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, log: cfg.Log.With("worker", "cluster"),
		status: event.New(Status{State: New, Since: time.Now()}),
		member: event.New(member.State{}), measures: event.New(member.Measures{}), held: event.New(false),

		observed: event.New[[]Observed](nil), health: event.New[[]protocol.Warning](nil), rotation: event.New(rotation.State{}),
	}
	m.shared = newSharer(cfg.Client, m.log, Membership{
		CAFile: cfg.Reach.CAFile, CertFile: cfg.Reach.CertFile, KeyFile: cfg.Reach.KeyFile,
	})
	// Without a member these two do nothing; their metrics are there either way.
	var files datadir.Layout
	if cfg.Embedded != nil {
		files = datadir.Layout(cfg.Embedded.DataDir)
		m.shared.node, m.shared.own, m.shared.used, m.shared.others = cfg.Embedded.Node, cfg.Embedded.clientURL(), true, nil
	}
	registerMeasures(cfg.Registerer, m.measures)
	m.keeper = quorum.NewKeeper(quorum.KeeperConfig{
		Client: cfg.Client, Local: m.shared.ownURL, EvictAfter: evictAfter(), PromoteAfter: promoteAfter(),
		Log: cfg.Log.With("worker", "learners"), Registerer: cfg.Registerer,
	})
	m.enrol = enrol.NewServer(enrol.Config{
		Client: cfg.Client, PKI: files.PKI(), Log: cfg.Log.With("worker", "joins"), Registerer: cfg.Registerer,
		After: func(done string) { afterStep("answer", done) },
	})
	return m
}

// Status follows the state and its problem.
func (m *Manager) Status() *event.Value[Status] { return m.status }

// Member follows the etcd member of this node; the zero State without one.
func (m *Manager) Member() *event.Value[member.State] { return m.member }

// Measures follows the measures of that member; zero without one.
func (m *Manager) Measures() *event.Value[member.Measures] { return m.measures }

// Membership follows how this node belongs to its cluster.
func (m *Manager) Membership() *event.Value[Membership] { return m.shared.value }

// Members follows the members of a cluster that the sidecars run, in the order of their
// node IDs. It is empty before they are known, and with an etcd that runs elsewhere.
func (m *Manager) Members() *event.Value[[]Observed] { return m.observed }

// Removed follows the members that people removed from it.
func (m *Manager) Removed() *event.Value[[]protocol.MemberRemoval] { return m.shared.removed }

// Held follows whether this process locked its data directory, and found that it
// belongs to a node in a cluster. It stays so until Run returns.
func (m *Manager) Held() *event.Value[bool] { return m.held }

// MemberProblem says why the etcd member of this node cannot be used now; empty: it
// can, or there is none.
func (m *Manager) MemberProblem() string {
	if m.cfg.Embedded == nil {
		return ""
	}
	switch is := m.shared.value.Get(); {
	case is.Removed:
		return "it was removed from the cluster, so this sidecar ends; to join again, the node needs an empty data directory and a new token"
	case is.Phase != membership.Working && is.Phase != membership.PhaseUnset:
		return "" // the status shows why its next step waits
	}
	now := m.member.Get()
	if problem := memberProblem(now); problem != "" {
		if full := datadir.Layout(m.cfg.Embedded.DataDir).FullDisk(); full != "" && now.LastExit != "" {
			problem += "; " + full
		}
		return problem
	}
	for _, o := range m.observed.Get() {
		if o.ID == keyspace.MemberID(now.MemberID) && !o.Healthy {
			return observedProblem(o.Problem)
		}
	}
	return ""
}

// WaitFinished waits until the state is Running, and returns nil then. If it is
// Failed, the error is why. It can be called before Run and after it, by any number of callers.
func (m *Manager) WaitFinished(ctx context.Context) error {
	var now Status
	err := event.Until(ctx, m.status, func(s Status) bool {
		now = s
		return s.State == Running || s.State == Failed
	})
	if now.State == Failed {
		return errors.New(now.Problem)
	}
	return err
}

// Run carries out the steps, and then keeps the member of this node running until
// ctx ends. The member stops last, before Run returns. A manager runs once.
func (m *Manager) Run(ctx context.Context) error {
	if m.cfg.Embedded == nil {
		return m.runExternal(ctx)
	}
	return m.runEmbedded(ctx)
}

// runExternal waits for the first answer of etcd.
func (m *Manager) runExternal(ctx context.Context) error {
	m.enter(ConnectingExternal)
	err := event.Until(ctx, m.cfg.Client.Contact(), func(contact etcd.Contact) bool {
		if !contact.Reached() {
			m.show(contact.Problem)
		}
		return contact.Reached()
	})
	if err != nil {
		return m.fail(err)
	}
	m.enter(Running)
	<-ctx.Done()
	return ctx.Err()
}

// enter changes the state.
func (m *Manager) enter(to State) {
	if to != Running {
		m.shared.change(func(now *Membership) { now.From = to })
	}
	m.change(to, "")
}

// stopped is the cause of a state that is Failed because Run was ended.
const stopped = "the sidecar was stopped before it reached its cluster"

// fail makes the state Failed, and returns err.
func (m *Manager) fail(err error) error {
	cause := err.Error()
	if errors.Is(err, context.Canceled) {
		cause = stopped
	}
	m.change(Failed, cause)
	return err
}

// change has one caller at a time: the goroutine of Run. It does not log why the state is
// Failed: Run returns that, and the sidecar ends with it.
func (m *Manager) change(to State, problem string) {
	now := time.Now()
	from := m.status.Get().State
	event.Update(m.status, func(s Status) Status {
		return Status{
			State: to, Since: now, Problem: problem,
			Transitions: append(slices.Clone(s.Transitions), report.Transition{From: string(s.State), To: string(to), At: report.At(now)}),
		}
	})
	m.log.Info("cluster state changed", "from", string(from), "to", string(to))
}

// usualWait is how long a node may wait on its way into the cluster while all is in order:
// for its turn, for the five seconds that etcd wants between two voters, or for a slow disk.
const usualWait = 15 * time.Second

// noSpace is in etcd's answer to a write while its database is full.
const noSpace = "database space exceeded"

// show sets the problem for which the current step waits; empty: none.
func (m *Manager) show(problem string) {
	if strings.Contains(problem, noSpace) && !strings.Contains(problem, FreeSpace) {
		problem += "; " + FreeSpace
	}
	was := m.status.Get()
	overdue := time.Since(was.Since) >= usualWait
	if was.Problem == problem && (problem == "" || m.warned || !overdue) {
		return
	}
	event.Update(m.status, func(s Status) Status { s.Problem = problem; return s })
	m.warned = problem != "" && overdue
	switch {
	case m.warned:
		m.log.Warn("waiting to reach the cluster", "problem", problem)
	case problem != "":
		m.log.Info("waiting to reach the cluster", "problem", problem)
	}
}
