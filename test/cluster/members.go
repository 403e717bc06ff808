package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

const (
	memberTimeout = 60 * time.Second
	// With memberHeartbeat, an election takes about a second, and a lease can live
	// for three.
	memberHeartbeat = 50 * time.Millisecond
)

// Member is a member of an etcd cluster, in its own process. Its methods may be
// called from many goroutines.
type Member struct {
	cluster *Cluster
	name    string
	client  string           // host:port
	peer    string           // host:port; the other members know it by its name
	args    []string         // without the directory for the data
	outlet  *etcdtest.Outlet // to the other members

	mu      sync.Mutex // mu guards the fields below; held while the process starts and ends
	process *Process
	dir     string // for the data
}

// startMembers starts n members, and returns when they serve. It starts all before it
// waits: no member serves alone.
func (c *Cluster) startMembers(n int) error {
	var names []string
	peers := map[string]string{}
	for i := range n {
		m := &Member{cluster: c, name: fmt.Sprintf("etcd-%d", i+1)}
		for _, addr := range []*string{&m.client, &m.peer} {
			var err error
			if *addr, err = etcdtest.FreeAddr(); err != nil {
				return err
			}
		}
		// The port does not matter: outlets know members by name.
		names = append(names, m.name+"="+m.peerURL())
		peers[m.name] = m.peer
		c.Members = append(c.Members, m)
	}
	for _, m := range c.Members {
		var err error
		if m.outlet, err = etcdtest.StartOutlet(peers); err != nil {
			return err
		}
		c.onClose(func() error {
			m.outlet.Close()
			return nil
		})
		m.dir = filepath.Join(c.cfg.Dir, m.name)
		m.args = []string{
			"-name=" + m.name, "-client=" + m.client, "-peer=" + m.peer,
			"-heartbeat=" + memberHeartbeat.String(), "-cluster=" + strings.Join(names, ","),
		}
		if err := m.begin(); err != nil {
			return err
		}
		// Once, for the process that the member runs by then. Parts that were started
		// later are stopped first: they need etcd to stop gracefully.
		c.onClose(func() error { return m.Process().Kill() })
	}
	ctx, cancel := context.WithTimeout(context.Background(), memberTimeout)
	defer cancel()
	for _, m := range c.Members {
		if err := m.Await(ctx); err != nil {
			return errors.Join(err, errors.New(m.process.Ending()))
		}
	}
	return nil
}

// begin starts the process. The member serves when enough others run.
func (m *Member) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		select {
		case <-m.process.Done():
		default:
			return nil
		}
	}
	var err error
	m.process, err = m.cluster.startProcess(processConfig{
		name: m.name, path: m.cluster.cfg.MemberBinary, args: append(slices.Clone(m.args), "-dir="+m.dir),
		env: []string{"HTTP_PROXY=socks5://" + m.outlet.Addr()}, // etcd dials its peers through it
	})
	return err
}

// Addr is the host:port at which clients reach the member.
func (m *Member) Addr() string { return m.client }

// Name returns the name of the member, such as etcd-1.
func (m *Member) Name() string { return m.name }

// Way returns the proxy for the member's connections to another member. Each of the
// two opens connections to the other, and sends on both kinds. So cut both ways to
// cut two members off from each other.
func (m *Member) Way(to *Member) *etcdtest.Proxy { return m.outlet.To(to.name) }

// Restart starts the member again, with its data and at its addresses. It does
// nothing while the member runs, and does not wait until it serves.
func (m *Member) Restart() error { return m.begin() }

// Process returns the member's newest process, whether it runs or not.
func (m *Member) Process() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// Await returns when the member answers a linearizable read.
func (m *Member) Await(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + m.client}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("await %s: %w", m.name, err)
	}
	defer client.Close()
	err = Poll(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := client.Get(ctx, "await")
		return err
	})
	if err != nil {
		return fmt.Errorf("await %s: %w", m.name, err)
	}
	return nil
}
