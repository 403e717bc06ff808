// Package child is the process of an etcd member (docs/clusters.md): the only one in which
// etcd's server runs. Package member starts it, and describes the messages between the two.
// Main starts four goroutines: one waits for the end of its input, one for a learner to
// become ready, one for the first leader of a member that is alone, one measures.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.uber.org/zap/zapcore"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// closeTimeout bounds a graceful stop. A ready member needs a second, to hand over the
// lead and to let its peers' connections end.
const closeTimeout = 10 * time.Second

var errLost = errors.New("it missed one message of its start, and reads it from its log now; that is usual for a node that has just joined")

var errHangs = fmt.Errorf("etcd did not stop within %s", closeTimeout)

// Main runs the member whose Spec is the first line of stdin, until stdin or ctx ends.
// It returns the exit code. It ignores the signals that stop a sidecar: a service
// manager sends them to all processes of a service, and the member must outlive the
// processes that need it.
func Main(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	// A member wakes up often, for little work. With several processors, it spends a third
	// of its time on waking up threads (docs/adr/0013-times-of-the-embedded-etcd.md).
	runtime.GOMAXPROCS(1)
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The parent may have been killed. A line that it does not read must not end the
	// member before it stops gracefully.
	signal.Ignore(syscall.SIGPIPE)
	syscall.CloseOnExec(member.LockFD)
	c := &child{messages: json.NewEncoder(stdout)}
	lines := bufio.NewReader(stdin)
	spec, err := readSpec(lines)
	if err != nil {
		return c.failed(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the process at the latest
		// Any byte after the Spec, and the end of the input, means: stop.
		_, _ = lines.ReadByte()
		stop()
	}()
	if spec.Snapshot != nil {
		return c.restore(ctx, spec)
	}
	return c.run(ctx, spec, stderr)
}

func readSpec(lines *bufio.Reader) (member.Spec, error) {
	var spec member.Spec
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return spec, fmt.Errorf("read the spec of the etcd member from standard input: %w; `sidecar run` starts this command", err)
	}
	if err := json.Unmarshal(line, &spec); err != nil {
		return spec, fmt.Errorf("the spec of the etcd member: %w", err)
	}
	return spec.WithDefaults(), spec.Validate()
}

// child reports events to the parent.
type child struct {
	mu       sync.Mutex // mu guards messages
	messages *json.Encoder
	memberID uint64
	cluster  uint64
	removed  atomic.Bool // etcd logged it
}

// write sends a message. If the parent ended already, it does not read it.
func (c *child) write(e member.Event, problem string) {
	c.send(member.Message{Event: e, MemberID: c.memberID, ClusterID: c.cluster, Problem: problem})
}

func (c *child) send(m member.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.messages.Encode(m)
}

func (c *child) failed(err error) int {
	c.write(member.Failed, err.Error())
	return member.ExitFailed
}

// startError replaces etcd's sentence about members that it finds in the cluster and not in its spec: it prints all of
// them.
func startError(err error) error {
	if strings.Contains(err.Error(), "member count is unequal") {
		return errors.New(member.MembersChanged)
	}
	return fmt.Errorf("start etcd: %w", err)
}

func (c *child) run(ctx context.Context, spec member.Spec, stderr io.Writer) int {
	level := zapcore.WarnLevel
	if spec.Verbose {
		level = zapcore.InfoLevel
	}
	cfg, err := serverConfig(spec, newLogger(stderr, level, &c.removed))
	if err != nil {
		return c.failed(err)
	}
	// etcd may block without end, on a directory that another process uses. So the
	// end of the input ends the process by itself.
	abandon := context.AfterFunc(ctx, func() {
		time.AfterFunc(closeTimeout, func() { os.Exit(c.failed(errHangs)) })
	})
	defer abandon()
	etcd, err := startServer(spec, cfg)
	if err != nil {
		return c.failed(startError(err))
	}
	c.memberID, c.cluster = uint64(etcd.MemberID()), uint64(etcd.Cluster().ID())
	c.write(member.Started, "")
	return c.serve(ctx, etcd, spec)
}

// serve waits for the end of the member.
func (c *child) serve(ctx context.Context, etcd *etcdServer, spec member.Spec) int {
	ready := etcd.ReadyNotify()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	lost := make(chan struct{})
	if spec.Patience > 0 {
		go awaitLoss(waiting, etcd, spec.Patience, lost)
	}
	measuring, end := context.WithCancel(ctx)
	defer end()
	go c.measure(measuring, spec.Measures, etcd.know)
	go electLone(waiting, etcd, etcd.Cluster().Members, raftApplied)
	for {
		select {
		case <-ready:
			stop()
			etcd.serveClients()
			c.write(member.Ready, "")
			ready, lost = nil, nil
		case <-lost:
			// Without a graceful stop, which takes a second: its log is on the disk, and it
			// serves nothing yet.
			c.write(member.Again, errLost.Error())
			return member.ExitAgain
		case <-ctx.Done():
			etcd.stop()
			return member.ExitStopped
		case <-etcd.StopNotify():
			return c.ended(etcd, errors.New("etcd stopped by itself"))
		}
	}
}

// lossPause is the pause between two looks at a learner that is not ready.
const lossPause = 20 * time.Millisecond

// observed is etcd's server, as awaitLoss observes it.
type observed interface {
	Leader() types.ID
	CommittedIndex() uint64
	IsLearner() bool
}

// awaitLoss closes lost when a learner was in contact with a leader, and held data,
// for so long that its message must be lost. It returns when ctx ends, too.
func awaitLoss(ctx context.Context, s observed, patience time.Duration, lost chan<- struct{}) {
	var since time.Time
	for backoff.Sleep(ctx, lossPause) {
		switch {
		case s.Leader() == 0 || s.CommittedIndex() == 0 || !s.IsLearner():
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= patience:
			close(lost)
			return
		}
	}
}

// ended reports the end of a member that was not asked to stop.
func (c *child) ended(etcd *etcdServer, err error) int {
	// If a member was stopped at its removal, the removal is not in its log.
	if etcd.IsIDRemoved(c.memberID) || c.removed.Load() {
		c.write(member.Removed, member.ErrRemoved.Error())
		return member.ExitRemoved
	}
	return c.failed(err)
}
