package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/etcd"
	manager "github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// This file is about the walk whose nodes are one command each (docs/roles.md): a sidecar
// that runs a member of etcd and a kube-apiserver.

// command holds the fields of a node that is one command.
type command struct {
	address, dataDir, kubeconfig string
	join                         []string // flags of its first start, with which it joins; only the walk's goroutine uses it
	token                        string   // for that start; only the walk's goroutine uses it
}

const (
	// startTimeout is how long a node may take until its kube-apiserver answers. It takes
	// some seconds on two idle cores.
	startTimeout = 3 * time.Minute
	// versionTimeout is how long a kube-apiserver may take to answer.
	versionTimeout = 5 * time.Second
)

// byCommand reports whether each node is one command.
func (w *Walk) byCommand() bool { return len(w.cfg.Addresses) > 0 }

func (w *Walk) newCommand(id, address string) (*node, error) {
	n := &node{id: id, listen: net.JoinHostPort(address, "8086"), apiAddr: net.JoinHostPort(address, strconv.Itoa(cluster.APIServerPort))}
	n.address, n.dataDir, n.kubeconfig = address, filepath.Join(w.cfg.Dir, "data-"+id), filepath.Join(w.cfg.Dir, id+".kubeconfig")
	return n, w.cfg.Cluster.WriteKubeconfig(n.kubeconfig, n.apiURL())
}

func (n *node) apiURL() string { return "https://" + n.apiAddr }

// startCommand starts a node by its one command, with the bundle and the services of a
// release.
func (w *Walk) startCommand(ctx context.Context, n *node, release string) error {
	client, err := dynamic.NewForConfig(w.cfg.Cluster.APIConfig(n.apiURL()))
	if err != nil {
		return fmt.Errorf("start node %s: %w", n.id, err)
	}
	sidecar, err := w.cfg.Cluster.StartSidecar(cluster.SidecarConfig{
		NodeID: n.id, Kubeconfig: n.kubeconfig, Bundle: w.bundles.path(release), Listen: n.listen, EtcdInArgs: true,
		ShutdownDelay: &shutdownDelay,
		Args: append([]string{
			"--etcd=embedded", "--services=" + w.builds[release].services, "--data-dir=" + n.dataDir,
			"--node-address=" + n.address, "--insecure-listen",
		}, n.join...),
		Env: []string{"ASSETS=" + w.cfg.Assets, "KEYS=" + w.cfg.Cluster.Keys(), "LOCKSTEP_TOKEN=" + n.token},
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.release, n.client, n.sidecar = release, client, sidecar
	n.mu.Unlock()
	n.join, n.token = nil, "" // it is a member from now on
	return sidecar.AwaitStart(startTimeout, func(ctx context.Context) error {
		_, err := w.version(ctx, n)
		return err
	})
}

// stopCommand stops the sidecar, which stops its services, and its member last.
func (w *Walk) stopCommand(n *node, sidecar *cluster.Sidecar) error {
	pid, err := n.leaveAPIServer(sidecar)
	if err != nil {
		return err
	}
	if err := sidecar.Stop(); err != nil {
		return err
	}
	if code := sidecar.ExitCode(); code != 0 {
		return fmt.Errorf("stop node %s: its sidecar ended with the exit code %d; %s", n.id, code, sidecar.Ending())
	}
	if runsAPIServer(pid) {
		return fmt.Errorf("stop node %s: its kube-apiserver, process %d, runs after the end of its sidecar", n.id, pid)
	}
	w.note(n.id + " has stopped, its kube-apiserver too")
	return nil
}

// killCommand kills a sidecar: its member of etcd ends with it, and its kube-apiserver too.
func (w *Walk) killCommand(n *node, sidecar *cluster.Sidecar) error {
	if _, err := n.leaveAPIServer(sidecar); err != nil {
		return err
	}
	return sidecar.Kill()
}

// leaveAPIServer remembers the kube-apiserver of a sidecar that is about to end, and returns its process ID.
func (n *node) leaveAPIServer(sidecar *cluster.Sidecar) (int, error) {
	pid, err := apiserverOf(sidecar)
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	n.former = pid
	n.mu.Unlock()
	return pid, nil
}

// apiserverOf returns the process ID of the kube-apiserver that a sidecar runs.
func apiserverOf(sidecar *cluster.Sidecar) (int, error) {
	children, err := sidecar.Children()
	if err != nil {
		return 0, err
	}
	for _, pid := range children {
		if runsAPIServer(pid) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("the sidecar of %s has no child that is a kube-apiserver", sidecar.NodeID)
}

// runsAPIServer reports whether a process is a kube-apiserver that has not ended.
func runsAPIServer(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || strings.Contains(string(stat), ") Z ") {
		return false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	program, _, _ := strings.Cut(string(line), "\x00")
	return err == nil && strings.HasPrefix(filepath.Base(program), "kube-apiserver")
}

// version returns the version that the kube-apiserver of a node reports.
func (w *Walk) version(ctx context.Context, n *node) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	client, err := rest.HTTPClientFor(w.cfg.Cluster.APIConfig(n.apiURL()))
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.apiURL()+"/version", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("/version of the kube-apiserver of %s answers %s", n.id, resp.Status)
	}
	var info struct{ GitVersion string }
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		return "", fmt.Errorf("/version of the kube-apiserver of %s: %w", n.id, err)
	}
	return info.GitVersion, nil
}

// checkRecord is called as soon as the release in a node's record changes. By then the
// kube-apiserver of that release answers, and the former one has exited.
func (w *Walk) checkRecord(ctx context.Context, id, release string) {
	if !w.byCommand() {
		return // the walk starts and stops them
	}
	i := slices.IndexFunc(w.nodes[:], func(n *node) bool { return n.id == id })
	if i < 0 {
		return
	}
	n := w.nodes[i]
	n.mu.Lock()
	former := n.former
	n.mu.Unlock()
	var err error
	if former != 0 && runsAPIServer(former) {
		err = fmt.Errorf("the former kube-apiserver, process %d, still ran", former)
	}
	got, answers := w.promptVersion(ctx, n)
	if want := w.builds[release].version; answers == nil && got != want {
		answers = fmt.Errorf("its kube-apiserver was %s, want %s", got, want)
	}
	err = errors.Join(err, answers)
	if ctx.Err() == nil {
		w.recorded(n, release, got, err)
	}
}

// promptVersion is version, which must answer at once. Only a busy machine may take longer.
func (w *Walk) promptVersion(ctx context.Context, n *node) (string, error) {
	for {
		got, err := w.version(ctx, n)
		if timeout, is := errors.AsType[net.Error](err); !is || !timeout.Timeout() || ctx.Err() != nil {
			return got, err
		}
	}
}

func (w *Walk) recorded(n *node, release, version string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records++
	if err != nil {
		w.mistimed = append(w.mistimed, fmt.Errorf("when the record of %s got the release %s: %w", n.id, release, err))
	}
	w.emit(Event{Text: fmt.Sprintf("%s is registered with %s; its kube-apiserver is %s", n.id, release, version)})
}

// claimRecords requires that the record of each start was seen, and was not written too
// early.
func (w *Walk) claimRecords(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records != w.starts {
		return fmt.Errorf("%d nodes were started, and %d new records were seen", w.starts, w.records)
	}
	return errors.Join(w.mistimed...)
}

// claimBuilds asks every kube-apiserver for its version.
func (w *Walk) claimBuilds(ctx context.Context) error {
	var errs []error
	for _, n := range w.nodes {
		n.mu.Lock()
		release := n.release
		n.mu.Unlock()
		got, err := w.version(ctx, n)
		if want := w.builds[release].version; err == nil && got != want {
			err = fmt.Errorf("the kube-apiserver of %s, which is of %s, is %s, want %s", n.id, release, got, want)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// execute executes a command of the sidecar's program, as a person would on a node, and
// returns its output.
func (w *Walk) execute(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, w.cfg.Cluster.SidecarBinary(), args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("sidecar %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return out, nil
}

// invite creates a token for each of the other nodes on a node, and adds the printed flags to
// theirs.
func (w *Walk) invite(ctx context.Context, first *node, others []*node) error {
	for _, n := range others {
		if err := w.inviteNode(ctx, first, n); err != nil {
			return err
		}
	}
	return nil
}

func (w *Walk) inviteNode(ctx context.Context, first, joining *node) error {
	args := []string{"cluster", "token", "create", "--node", joining.id}
	w.note(first.id + " $ sidecar " + strings.Join(args, " "))
	out, err := w.execute(ctx, append(args, "--data-dir="+first.dataDir, "-o=json")...)
	if err != nil {
		return err
	}
	var token struct{ Command string }
	if err := json.Unmarshal(out, &token); err != nil {
		return fmt.Errorf("the token: %w", err)
	}
	flags, err := cluster.JoinFlags(token.Command)
	if err != nil {
		return err
	}
	joining.join, joining.token = flags[:1], strings.TrimPrefix(flags[1], "--token=")
	return nil
}

// typed returns the command that starts a node, as a person would type it on the node, without
// the flags that differ from machine to machine. It shortens the token, which is long, and secret.
func (n *node) typed(release string) string {
	words := append([]string{"sidecar run --etcd=embedded"}, n.join...)
	if n.token != "" {
		words[0] = "LOCKSTEP_TOKEN=" + strings.Join(strings.SplitN(n.token, ".", 3)[:2], ".") + "… " + words[0]
	}
	return n.id + " $ " + strings.Join(append(words, "--services=services/"+release, "--bundle=bundles/"+release), " ")
}

// claimMembers asks every node how the members are.
func (w *Walk) claimMembers(ctx context.Context) error {
	var errs []error
	for _, n := range w.nodes {
		out, err := w.execute(ctx, "cluster", "members", "--data-dir="+n.dataDir, "-o=json")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var members []struct {
			Role    string
			Healthy bool
		}
		if err := json.Unmarshal(out, &members); err != nil {
			errs = append(errs, fmt.Errorf("the members: %w", err))
			continue
		}
		voters := 0
		for _, m := range members {
			if m.Role == "voter" && m.Healthy {
				voters++
			}
		}
		if voters != NodeCount || len(members) != NodeCount {
			errs = append(errs, fmt.Errorf("%s has %d healthy voters of %d members", n.id, voters, len(members)))
		}
	}
	return errors.Join(errs...)
}

// memberClient returns a client of the members, once the first one exists.
func (w *Walk) memberClient(ctx context.Context) (*clientv3.Client, error) {
	var reach etcd.Config
	err := cluster.Poll(ctx, func(context.Context) (err error) {
		reach, err = manager.Reach(w.nodes[0].dataDir, "/")
		return err
	})
	if err != nil {
		return nil, err
	}
	files := transport.TLSInfo{TrustedCAFile: reach.CAFile, CertFile: reach.CertFile, KeyFile: reach.KeyFile}
	config, err := files.ClientConfig()
	if err != nil {
		return nil, err
	}
	for _, address := range w.cfg.Addresses[1:] {
		reach.Endpoints = append(reach.Endpoints, "https://"+address+":8088")
	}
	return clientv3.New(clientv3.Config{Endpoints: reach.Endpoints, TLS: config, Logger: zap.NewNop()})
}
