package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// task holds the objects that a tool must apply.
type task struct {
	prefix string // of all names
	dir    string // a bundle
	file   string // its objects
	chart  string // with the same objects, for Helm
}

// tool is a program that applies objects, and how to call it.
type tool struct {
	name    string
	program string // empty: this program
	args    func(kubeconfig string, t task) []string
}

// tools returns the peers, except the bare patches.
func (b *bench) tools() []tool {
	return []tool{
		{"kubectl", "peer-kubectl", func(kubeconfig string, t task) []string {
			return []string{"--kubeconfig=" + kubeconfig, "apply", "--server-side", "-f", t.file}
		}},
		{"Flux", "peer-flux", func(kubeconfig string, t task) []string {
			return []string{"-kubeconfig=" + kubeconfig, "-f=" + t.file, "-concurrency=16"}
		}},
		{"Helm", "peer-helm", func(kubeconfig string, t task) []string {
			return []string{"--kubeconfig=" + kubeconfig, "upgrade", "--install", t.prefix, t.chart}
		}},
	}
}

func bare(workers int) tool {
	return tool{bareName(workers), "", func(kubeconfig string, t task) []string {
		return []string{"peer", "bare", "-kubeconfig=" + kubeconfig, "-dir=" + t.dir, fmt.Sprintf("-workers=%d", workers)}
	}}
}

// bareCreate posts the objects, which do not exist.
func bareCreate(workers int) tool {
	t := bare(workers)
	t.name = fmt.Sprintf("bare create, %d at once", workers)
	args := t.args
	t.args = func(kubeconfig string, t task) []string { return append(args(kubeconfig, t), "-create") }
	return t
}

// barePosts sends the POSTs of Lockstep that are in a file.
func barePosts(workers int, file string) tool {
	t := bare(workers)
	t.name = fmt.Sprintf("the same POSTs, %d at once", workers)
	args := t.args
	t.args = func(kubeconfig string, t task) []string { return append(args(kubeconfig, t), "-posts="+file) }
	return t
}

// bareLists lists the objects that Lockstep applied.
func (b *bench) bareLists(kubeconfig string, t task) []string {
	return []string{"peer", "lists", "-kubeconfig=" + kubeconfig, "-dir=" + t.dir, "-etcd=" + b.cluster.Etcd.Endpoints()[0]}
}

func bareName(workers int) string { return fmt.Sprintf("bare, %d at once", workers) }

// runTimed runs a program to its end. It returns the usage that the kernel counted, and
// the time without the program's start if the program prints it.
func (b *bench) runTimed(ctx context.Context, program string, args []string, input string) (spent, passed, error) {
	cmd, result, err := b.timed(ctx, program, args)
	if err != nil {
		return spent{}, passed{}, err
	}
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &log
	if err := runChild(cmd); err != nil {
		return spent{}, passed{}, fmt.Errorf("%s %s: %w: %s", filepath.Base(cmd.Args[4]), strings.Join(args, " "), err, lastOf(log.String()))
	}
	data, err := os.ReadFile(result)
	if err != nil {
		return spent{}, passed{}, err
	}
	var s spent
	if err := json.Unmarshal(data, &s); err != nil {
		return spent{}, passed{}, err
	}
	p := passed{Took: s.Wall}
	if text := bytes.TrimSpace(out.Bytes()); bytes.HasPrefix(text, []byte("{")) {
		err = json.Unmarshal(text, &p)
	}
	return s, p, err
}

// runChild starts a child and waits for its end.
func runChild(cmd *exec.Cmd) error {
	if err := cluster.StartCommand(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// lastOf returns the end of a log, for messages.
func lastOf(log string) string { return log[max(0, len(log)-2000):] }

// timed returns the command that runs a program by the peer "timed", and the file to
// which that peer writes the program's usage.
func (b *bench) timed(ctx context.Context, program string, args []string) (cmd *exec.Cmd, result string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	executable := self
	if program != "" {
		executable = filepath.Join(b.opts.assets, program)
	}
	result = filepath.Join(b.dir, "timed.json")
	cmd = exec.CommandContext(ctx, self, append([]string{"peer", "timed", result, executable}, args...)...)
	home := filepath.Join(b.dir, "home") // with the tools' caches, which are full from the second round on
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "KUBECACHEDIR=" + home}
	return cmd, result, nil
}

// resident is a process that makes Lockstep's passes on request.
type resident struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	log bytes.Buffer
	to  string
}

func passArgs(kubeconfig string) []string {
	return []string{"peer", "pass", "-kubeconfig=" + kubeconfig}
}

func passLine(dir string, epoch int) string { return fmt.Sprintf("%s %d\n", dir, epoch) }

func (b *bench) startResident(ctx context.Context, kubeconfig string) (*resident, error) {
	cmd, to, err := b.timed(ctx, "", passArgs(kubeconfig))
	if err != nil {
		return nil, err
	}
	r := &resident{cmd: cmd, to: to}
	if r.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out, cmd.Stderr = bufio.NewScanner(out), &r.log
	return r, cluster.StartCommand(cmd)
}

func (r *resident) pass(dir string, epoch int) (passed, error) {
	if _, err := io.WriteString(r.in, passLine(dir, epoch)); err != nil {
		return passed{}, err
	}
	if !r.out.Scan() {
		return passed{}, errors.Join(errors.New("the passes ended"), r.out.Err(), r.cmd.Wait(), errors.New(lastOf(r.log.String())))
	}
	var p passed
	return p, json.Unmarshal(r.out.Bytes(), &p)
}

// end waits until the process has ended, and returns the usage that the kernel counted.
func (r *resident) end() (spent, error) {
	if err := errors.Join(r.in.Close(), r.cmd.Wait()); err != nil {
		return spent{}, err
	}
	data, err := os.ReadFile(r.to)
	if err != nil {
		return spent{}, err
	}
	var s spent
	return s, json.Unmarshal(data, &s)
}

// objectKeys returns the prefixes of the objects' keys in etcd.
func objectKeys(registry, prefix string) []string {
	var out []string
	for _, kind := range []string{"clusterroles", "clusterrolebindings", "priorityclasses", "storageclasses", "configmaps/default"} {
		out = append(out, registry+"/"+kind+"/"+prefix+"-")
	}
	return out
}

// writtenSince counts the objects of a prefix that were written after a revision.
func (b *bench) writtenSince(ctx context.Context, registry, prefix string, revision int64) (int, error) {
	n := 0
	for _, key := range objectKeys(registry, prefix) {
		resp, err := b.etcd.Get(ctx, key, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMinModRev(revision+1))
		if err != nil {
			return 0, err
		}
		n += len(resp.Kvs)
	}
	return n, nil
}

func (b *bench) revision(ctx context.Context) (int64, error) {
	resp, err := b.etcd.Get(ctx, "none", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

// clean removes from etcd all that a tool created, and gives the kube-apiserver a
// moment to see it.
func (b *bench) clean(ctx context.Context, registry, prefix string) error {
	keys := objectKeys(registry, prefix)
	for _, own := range []string{
		"configmaps/kube-system/lockstep",
		"validatingadmissionpolicies/lockstep-fence.",
		"validatingadmissionpolicybindings/lockstep-fence.",
		"secrets/default/sh.helm.release.v1." + prefix + ".",
	} {
		keys = append(keys, registry+"/"+own)
	}
	ops := make([]clientv3.Op, 0, len(keys))
	for _, key := range keys {
		ops = append(ops, clientv3.OpDelete(key, clientv3.WithPrefix()))
	}
	if _, err := b.etcd.Txn(ctx).Then(ops...).Commit(); err != nil {
		return err
	}
	pause(ctx, 300*time.Millisecond)
	return nil
}
