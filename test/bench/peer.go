package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// A peer is this program, called as `bench peer NAME`: a process of its own, as
// a sidecar is, that can be stopped and killed. It says on its standard output,
// a line each, what it has come to.
const (
	saysFollows = "follows" // it waits for its turn
	saysLeads   = "leads"
	saysBlocked = "blocked" // it leads, and waits for nodes that block it
	saysDone    = "done"    // it leads, has made its pass, and the status is DONE
)

// peerFlags are the flags of the peers that go on until they are stopped.
type peerFlags struct {
	id, etcd, prefix, kubeconfig string
	release, minApiserver        string
	objects                      string // their names begin with it
	thousand                     bool
}

// runPeer runs a peer until SIGTERM, or until it has done what it is for.
func runPeer(name string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch name {
	case "timed":
		return runTimed(args)
	case "pass":
		return runPass(ctx, args)
	case "bare":
		return runBare(ctx, args)
	}
	return runLasting(ctx, name, args)
}

// runLasting runs a peer that goes on until it is stopped.
func runLasting(ctx context.Context, name string, args []string) error {
	var f peerFlags
	set := flag.NewFlagSet(name, flag.ExitOnError)
	set.StringVar(&f.id, "id", "", "")
	set.StringVar(&f.etcd, "etcd", "", "")
	set.StringVar(&f.prefix, "prefix", "", "")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "")
	set.StringVar(&f.release, "release", "1.0.0", "")
	set.StringVar(&f.minApiserver, "min-apiserver", "0.0.0", "")
	set.StringVar(&f.objects, "objects", "", "")
	set.BoolVar(&f.thousand, "thousand", false, "")
	if err := set.Parse(args); err != nil {
		return err
	}
	var err error
	switch name {
	case "origin":
		err = runOrigin(ctx, f)
	case "client-go":
		err = runClientGo(ctx, f)
	case "keeper":
		err = runKeeper(ctx, f)
	default:
		err = fmt.Errorf("there is no peer %q", name)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// say tells the benchmark; one write, so that lines stay whole.
func say(what string) { fmt.Fprintln(os.Stdout, what) }

// peer is a running peer.
type peer struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}

	mu   sync.Mutex // mu guards said
	said map[string]chan time.Time
}

// startPeer starts a peer.
func (b *bench) startPeer(name string, f peerFlags) (*peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(b.dir, "peer-"+f.id+".log"))
	if err != nil {
		return nil, err
	}
	p := &peer{log: log, ended: make(chan struct{}), said: map[string]chan time.Time{}}
	p.cmd = exec.Command(self, "peer", name,
		"-id="+f.id, "-etcd="+b.cluster.Etcd.Endpoints()[0], "-prefix="+f.prefix, "-kubeconfig="+f.kubeconfig,
		"-release="+orZero(f.release), "-min-apiserver="+orZero(f.minApiserver), "-objects="+f.objects,
		fmt.Sprintf("-thousand=%v", f.thousand))
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cluster.StartCommand(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			at := time.Now()
			select {
			case p.when(lines.Text()) <- at:
			default: // it says so again, and the first time counts
			}
		}
		_ = p.cmd.Wait() // that it was killed is no news
	}()
	return p, nil
}

func orZero(release string) string {
	if release == "" {
		return "0.0.0"
	}
	return release
}

// when returns the channel that gets the time at which the peer said what.
func (p *peer) when(what string) chan time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said[what] == nil {
		p.said[what] = make(chan time.Time, 1) // has room for the first time
	}
	return p.said[what]
}

// await returns when the peer said what, once.
func (p *peer) await(ctx context.Context, what string) (time.Time, error) {
	at, err := await(ctx, "a peer to say "+what, p.when(what))
	if errors.Is(err, errPatience) {
		text, _ := os.ReadFile(p.log.Name()) // it is only here to explain
		err = fmt.Errorf("%w: %s", err, text)
	}
	return at, err
}

// signal returns the moment before the signal was sent.
func (p *peer) signal(sig syscall.Signal) (time.Time, error) {
	at := time.Now()
	return at, p.cmd.Process.Signal(sig)
}

// end ends the peer, if it has not ended yet, and waits for it.
func (p *peer) end(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return p.log.Close()
}
