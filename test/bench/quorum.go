package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	manager "github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// quorumCases returns the cases of sidecars that run their own etcd.
func quorumCases() []benchCase {
	return []benchCase{
		{group: "cluster", name: "create", run: benchCreate},
		{group: "cluster", name: "join", run: benchJoin},
		{group: "cluster", name: "members", run: benchMembers},
		{group: "cluster", name: "size", run: benchSize},
	}
}

func quorumRows() []string {
	return []string{rowAlive, rowFirstDone, rowSecond, rowThird, rowBoth, rowFailover}
}

const (
	rowAlive     = "a new cluster's first node starts, until /livez answers"
	rowFirstDone = "the same, until the status is DONE: the built-in bundle"
	rowSecond    = "a second node starts, until its etcd member votes"
	rowThird     = "a third one right after that, until its etcd member votes"
	rowBoth      = "two nodes start at the same time, until both vote"
	rowFailover  = "power failure of the node that leads etcd, until a sidecar's write is accepted"
)

// votes reports whether the sidecar is in its cluster, with a member that votes.
func (v view) votes() bool { return v.Cluster.State == string(manager.Running) }

// member is a sidecar with a member of etcd.
type member struct {
	*node
	dir, address string
}

// newMember returns the configuration of a node at a loopback address of its own.
func (b *bench) newMember(name, kubeconfig string, joins ...string) *member {
	b.addresses++
	address := addressOf(b.addresses)
	m := &member{dir: filepath.Join(b.dir, name), address: address}
	noDelay := time.Duration(0)
	m.node = &node{b: b, cfg: cluster.SidecarConfig{
		NodeID: name, Kubeconfig: kubeconfig, EtcdInArgs: true, ShutdownDelay: &noDelay,
		Args: append([]string{"--etcd=embedded", "--data-dir=" + m.dir, "--node-address=" + m.address}, joins...),
	}}
	return m
}

// maxAddresses is the number of addresses in the certificate of the kube-apiservers.
const maxAddresses = 64

// addressOf is the n-th loopback address of a node of this process.
func addressOf(n int) string {
	return fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff, 1+n)
}

// launch starts a member, and returns the time just before.
func (m *member) launch(ctx context.Context) (time.Time, error) {
	var err error
	if m.cfg.Listen == "" {
		if m.cfg.Listen, err = cluster.FreeAddr(); err != nil {
			return time.Time{}, err
		}
	}
	m.observer = observe(ctx, "http://"+m.cfg.Listen)
	at := time.Now()
	m.Sidecar, err = m.b.cluster.LaunchSidecar(m.cfg)
	return at, err
}

// join launches nodes at the same time, and returns how long each took until it votes.
func join(ctx context.Context, nodes ...*member) ([]time.Duration, error) {
	var begun []time.Time
	var took []time.Duration
	for _, m := range nodes {
		at, err := m.launch(ctx)
		if err != nil {
			return nil, err
		}
		begun = append(begun, at)
	}
	for i, m := range nodes {
		at, err := m.await(ctx, "to be a member that votes", view.votes)
		if err != nil {
			return nil, err
		}
		took = append(took, at.Sub(begun[i]))
	}
	return took, nil
}

// token returns the flags with which other nodes join.
func (m *member) token(ctx context.Context) ([]string, error) {
	program := filepath.Join(m.b.opts.assets, "sidecar")
	out, err := exec.CommandContext(ctx, program, "cluster", "token", "create", "--uses=2", "-o=json", "--data-dir="+m.dir).Output()
	if err != nil {
		return nil, fmt.Errorf("create a token: %w", err)
	}
	var created struct{ Command string }
	if err := json.Unmarshal(out, &created); err != nil {
		return nil, fmt.Errorf("create a token: %w", err)
	}
	return cluster.JoinFlags(created.Command)
}

// kill ends the sidecar and its member at one moment, as a power failure does.
func (m *member) kill() (time.Time, error) {
	child, err := m.Child()
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	errs := []error{syscall.Kill(m.PID(), syscall.SIGKILL)}
	if child != 0 {
		errs = append(errs, syscall.Kill(child, syscall.SIGKILL))
	}
	<-m.Done()
	return at, errors.Join(errs...)
}

func stopMembers(nodes ...*member) error {
	for _, m := range nodes {
		if err := m.stop(); err != nil {
			return err
		}
	}
	return nil
}

// benchCreate starts the first node of a new cluster beside a kube-apiserver, again and
// again.
func benchCreate(ctx context.Context, b *bench) error {
	var alive, done []time.Duration
	for i := range b.opts.rounds {
		name := fmt.Sprintf("create-%d", i)
		api, err := b.startAPI(name)
		if err != nil {
			return err
		}
		m := b.newMember(name, api.Kubeconfig())
		begin, err := m.launch(ctx)
		if err != nil {
			return err
		}
		at, err := firstAnswer(ctx, m.URL()+"/livez")
		if err != nil {
			return err
		}
		alive = append(alive, at.Sub(begin))
		if at, err = m.await(ctx, "to have made its pass", view.settled); err != nil {
			return err
		}
		done = append(done, at.Sub(begin))
		if err := errors.Join(m.stop(), api.Stop()); err != nil {
			return err
		}
	}
	b.report.measured(rowAlive, bar{max: 300 * time.Millisecond}, alive)
	b.report.measured(rowFirstDone, bar{max: 2 * time.Second}, done)
	return nil
}

// firstAnswer returns when a URL first answers 200.
func firstAnswer(ctx context.Context, url string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return time.Time{}, err
		}
		resp, err := client.Do(req)
		if err == nil {
			at := time.Now()
			_ = resp.Body.Close() // it was not read
			if resp.StatusCode == http.StatusOK {
				return at, nil
			}
		}
		pause(ctx, redial)
	}
	return time.Time{}, fmt.Errorf("%s does not answer: %w", url, ctx.Err())
}

// benchJoin makes three voters of one node, in both orders.
func benchJoin(ctx context.Context, b *bench) error {
	kubeconfig, err := b.unusedKubeconfig()
	if err != nil {
		return err
	}
	var second, third, both []time.Duration
	for i := range b.opts.rounds {
		inTurn, err := b.threeNodes(ctx, fmt.Sprintf("turn-%d", i), kubeconfig, func(two, three *member) ([]time.Duration, error) {
			first, err := join(ctx, two)
			if err != nil {
				return nil, err
			}
			last, err := join(ctx, three)
			return append(first, last...), err
		})
		if err != nil {
			return err
		}
		atOnce, err := b.threeNodes(ctx, fmt.Sprintf("once-%d", i), kubeconfig, func(two, three *member) ([]time.Duration, error) {
			return join(ctx, two, three)
		})
		if err != nil {
			return err
		}
		second, third, both = append(second, inTurn[0]), append(third, inTurn[1]), append(both, slices.Max(atOnce))
	}
	b.report.measured(rowSecond, bar{max: 3 * time.Second}, second)
	b.report.measured(rowThird, bar{max: 7 * time.Second}, third)
	b.report.measured(rowBoth, bar{max: 10 * time.Second}, both)
	return nil
}

// threeNodes creates a cluster, lets two nodes join it, and stops all.
func (b *bench) threeNodes(
	ctx context.Context, name, kubeconfig string, joins func(two, three *member) ([]time.Duration, error),
) ([]time.Duration, error) {
	one := b.newMember(name+"-a", kubeconfig)
	if _, err := join(ctx, one); err != nil {
		return nil, err
	}
	flags, err := one.token(ctx)
	if err != nil {
		return nil, err
	}
	two, three := b.newMember(name+"-b", kubeconfig, flags...), b.newMember(name+"-c", kubeconfig, flags...)
	took, err := joins(two, three)
	return took, errors.Join(err, stopMembers(three, two, one))
}

// benchSize compares the size of the sidecar's program, which contains etcd.
func benchSize(_ context.Context, b *bench) error {
	const largest = 35e6
	info, err := os.Stat(filepath.Join(b.opts.assets, "sidecar"))
	if err != nil {
		return err
	}
	found := float64(info.Size())
	b.report.fact("size of the sidecar's program", fmt.Sprintf("%.1f MB", found/1e6), "< 35 MB", found < largest)
	return nil
}
