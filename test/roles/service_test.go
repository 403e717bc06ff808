package roles_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// This file is the program of the service: it observes its sidecar when it starts, before it
// is ready, and when it is asked to stop, and writes the observations into a log. So no two
// clocks need to be compared.

// serviceWord is the first argument of the program.
const serviceWord = "service"

// settings configure the program, in JSON, as its second argument.
type settings struct {
	Log    string // file
	Listen string // where it answers
	// Socket: the third file is the socket for that, which listens already. Otherwise it
	// listens when it is ready.
	Socket            bool
	Etcd              string // endpoints, with commas
	CAFile            string // of etcd; empty: without TLS
	CertFile, KeyFile string
	Readyz            string // URL
	Release           int    // so that each release runs another service
}

// The moments of a service.
const (
	started  = "started"
	isReady  = "ready" // about to be
	stopping = "stopping"
)

// line is one of the log.
type line struct {
	What string
	PID  int
	// Beside are the instances that live besides this one.
	Beside []int
	// Open: /readyz of the sidecar answers 200.
	Open bool
	// Record is the revision of the node's record; 0: there is none.
	Record   int64
	Presence bool
	// Leaders are the keys of candidates.
	Leaders []string
}

// How long the program takes to become ready, and to stop: a step that is too early falls
// into these times.
const (
	startTakes = 30 * time.Millisecond
	stopTakes  = 30 * time.Millisecond
)

func serve(ctx context.Context, args []string) error {
	var s settings
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return err
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	var ready atomic.Bool
	if s.Socket {
		l, err := net.FileListener(os.NewFile(3, "socket"))
		if err != nil {
			return err
		}
		go answerProbes(l, &ready) // ends with the process
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	if err := s.observe(ctx, client, started); err != nil {
		return err
	}
	select {
	case <-term:
		return s.observe(ctx, client, stopping)
	case <-time.After(startTakes):
	}
	if err := s.observe(ctx, client, isReady); err != nil {
		return err
	}
	ready.Store(true)
	if !s.Socket {
		l, err := net.Listen("tcp", s.Listen)
		if err != nil {
			return err
		}
		go answerProbes(l, &ready) // ends with the process
	}
	<-term
	if err := s.observe(ctx, client, stopping); err != nil {
		return err
	}
	backoff.Sleep(ctx, stopTakes)
	return nil
}

// answerProbes answers the probes of the sidecar.
func answerProbes(l net.Listener, ready *atomic.Bool) {
	// It returns when the process ends.
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // only the sidecar asks
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}

func (s settings) client() (*clientv3.Client, error) {
	var config *tls.Config
	if s.CAFile != "" {
		var err error
		files := transport.TLSInfo{TrustedCAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile}
		if config, err = files.ClientConfig(); err != nil {
			return nil, err
		}
	}
	return clientv3.New(clientv3.Config{Endpoints: strings.Split(s.Etcd, ","), TLS: config, Logger: zap.NewNop()})
}

// observe appends a line to the log.
func (s settings) observe(ctx context.Context, client *clientv3.Client, what string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	before, err := readLog(s.Log)
	if err != nil {
		return err
	}
	out := line{What: what, PID: os.Getpid(), Beside: others(before)}
	resp, err := client.Txn(ctx).Then(clientv3.OpGet(keys.Node(nodeID)), clientv3.OpGet(keys.Presence(nodeID)),
		clientv3.OpGet(keys.Leaders(), clientv3.WithPrefix())).Commit()
	if err != nil {
		return err
	}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		out.Record = kv.ModRevision
	}
	out.Presence = len(resp.Responses[1].GetResponseRange().Kvs) > 0
	for _, kv := range resp.Responses[2].GetResponseRange().Kvs {
		out.Leaders = append(out.Leaders, string(kv.Key))
	}
	if answer, err := http.Get(s.Readyz); err == nil {
		out.Open = answer.StatusCode == http.StatusOK
		_ = answer.Body.Close() // its content does not matter
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", text)
	return errors.Join(err, f.Close())
}

// readLog returns all lines of a log, which need not exist.
func readLog(path string) ([]line, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []line
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var l line
		if json.Unmarshal(scanner.Bytes(), &l) == nil { // a line may be cut by SIGKILL
			out = append(out, l)
		}
	}
	return out, nil
}

// others are the instances in a log that live, except this process.
func others(log []line) []int {
	var out []int
	for _, l := range log {
		if l.What == started && l.PID != os.Getpid() && lives(l.PID) {
			out = append(out, l.PID)
		}
	}
	return out
}

// lives reports whether a process runs this program.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || strings.Contains(string(stat), ") Z ") {
		return false
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(command), "\x00"+serviceWord+"\x00")
}
