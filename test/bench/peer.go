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

// A peer is this program, called as `bench peer NAME`: a process of its own, like a
// sidecar, that can be stopped and killed. It reports its progress on standard
// output, one word for each line.
const (
	saysFollows = "follows" // it waits for the leadership
	saysLeads   = "leads"
	saysBlocked = "blocked" // it leads, and waits for nodes that block it
	saysDone    = "done"    // it leads, finished its pass, and wrote DONE
)

// peerFlags are the flags of the peers that run until they are stopped.
type peerFlags struct {
	id, etcd, prefix, kubeconfig string
	release, minAPIServer        string
	objects                      string // the prefix of their names
	thousand                     bool
}

// runPeer runs a peer until SIGTERM, or until its work is done.
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
	case "lists":
		return runLists(ctx, args)
	case "etcd":
		return runEtcd(ctx, args)
	case "many":
		return runMany(ctx, args)
	case "restart":
		return runRestart(ctx, args)
	case "chi":
		return runChi(ctx, args)
	}
	return runLasting(ctx, name, args)
}

// runLasting runs a peer that ends only when it is stopped.
func runLasting(ctx context.Context, name string, args []string) error {
	var f peerFlags
	set := flag.NewFlagSet(name, flag.ExitOnError)
	set.StringVar(&f.id, "id", "", "")
	set.StringVar(&f.etcd, "etcd", "", "")
	set.StringVar(&f.prefix, "prefix", "", "")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "")
	set.StringVar(&f.release, "release", "1.0.0", "")
	set.StringVar(&f.minAPIServer, "min-apiserver", "0.0.0", "")
	set.StringVar(&f.objects, "objects", "", "")
	set.BoolVar(&f.thousand, "thousand", false, "")
	if err := set.Parse(args); err != nil {
		return err
	}
	start, known := map[string]func(context.Context, peerFlags) error{
		"origin": runOrigin, "client-go": runClientGo, "keeper": runKeeper, "controller": runController,
	}[name]
	if !known {
		return fmt.Errorf("there is no peer %q", name)
	}
	if err := start(ctx, f); ctx.Err() == nil {
		return err
	}
	return nil // the benchmark ended it
}

// say reports to the benchmark. It makes one write, so that lines stay whole.
func say(what string) { fmt.Fprintln(os.Stdout, what) }

// peer is a running peer.
type peer struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}

	mu   sync.Mutex // mu guards said
	said map[string]chan time.Time
}

// startPeer starts a peer that takes peerFlags.
func (b *bench) startPeer(name string, f peerFlags) (*peer, error) {
	return b.launch(f.id, name,
		"-id="+f.id, "-etcd="+b.cluster.Etcd.Endpoints()[0], "-prefix="+f.prefix, "-kubeconfig="+f.kubeconfig,
		"-release="+orZero(f.release), "-min-apiserver="+orZero(f.minAPIServer), "-objects="+f.objects,
		fmt.Sprintf("-thousand=%v", f.thousand))
}

// launch starts this program as a peer. id names its log.
func (b *bench) launch(id, name string, args ...string) (*peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(b.dir, "peer-"+id+".log"))
	if err != nil {
		return nil, err
	}
	p := &peer{log: log, ended: make(chan struct{}), said: map[string]chan time.Time{}}
	p.cmd = exec.Command(self, append([]string{"peer", name}, args...)...)
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
			default: // it was said before; the first time counts
			}
		}
		_ = p.cmd.Wait() // the error is that it was killed
	}()
	return p, nil
}

func orZero(release string) string {
	if release == "" {
		return "0.0.0"
	}
	return release
}

// when returns the channel that gets the time at which the peer said the word what.
func (p *peer) when(what string) chan time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said[what] == nil {
		p.said[what] = make(chan time.Time, 1) // buffered: it gets the first time
	}
	return p.said[what]
}

// await waits until the peer says a word, and returns when. It works once for each
// word.
func (p *peer) await(ctx context.Context, what string) (time.Time, error) {
	at, err := await(ctx, "a peer to say "+what, p.when(what))
	if errors.Is(err, errPatience) {
		text, _ := os.ReadFile(p.log.Name()) // only to explain
		err = fmt.Errorf("%w: %s", err, text)
	}
	return at, err
}

// signal sends a signal, and returns the time just before.
func (p *peer) signal(sig syscall.Signal) (time.Time, error) {
	at := time.Now()
	return at, p.cmd.Process.Signal(sig)
}

// end sends a signal, if the peer still runs, and waits for its end.
func (p *peer) end(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return p.log.Close()
}
