package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// spent is the usage of a program, as the kernel counted it.
type spent struct {
	Wall time.Duration
	CPU  time.Duration // user and system
	Peak int64         // resident memory, bytes
}

// runTimed is the peer "timed". It runs a program, and writes its usage, as the kernel
// counted it, to a file. It is a process of its own because the kernel counts the memory
// of the parent process for the program, and this one needs little.
func runTimed(args []string) error {
	to, program := args[0], args[1:]
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	begin := time.Now()
	if err := runChild(cmd); err != nil {
		return err
	}
	out := spent{Wall: time.Since(begin), CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if counted, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		out.Peak = counted.Maxrss * rssUnit()
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// rssUnit is the unit in which the kernel counts memory, in bytes.
func rssUnit() int64 {
	if runtime.GOOS == "darwin" {
		return 1
	}
	return 1 << 10
}

// passed is the result of one pass, a line of JSON on standard output.
type passed struct {
	Took     time.Duration // without the start of the process, and after the objects were read
	Load     time.Duration // to read the bundle
	Requests int64
	Writes   int64 // requests that are not reads
	Applied  int   // objects written
	Heap     uint64
}

// runPass is the peer "pass": Lockstep's reconciliation and nothing else. It makes a
// pass for each line on standard input, which contains the directory of a bundle and
// its content epoch.
func runPass(ctx context.Context, args []string) (err error) {
	set := flag.NewFlagSet("pass", flag.ExitOnError)
	kubeconfig := set.String("kubeconfig", "", "")
	posts := set.String("posts", "", "")
	if err := set.Parse(args); err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	p := passer{bundle: event.New[*bundle.Bundle](nil)}
	cfg.Wrap(p.count)
	if *posts != "" {
		keep := &postKeeper{}
		cfg.Wrap(keep.wrap)
		defer func() { err = errors.Join(err, keep.write(*posts)) }()
	}
	p.rec, err = reconcile.New(reconcile.Config{RESTConfig: cfg, Bundle: p.bundle})
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var dir string
		var epoch int64
		if _, err := fmt.Sscan(lines.Text(), &dir, &epoch); err != nil {
			return err
		}
		out, err := p.pass(ctx, dir, epoch)
		if err != nil {
			return err
		}
		if err := printPassed(out); err != nil {
			return err
		}
	}
	return nil
}

// printPassed writes out as JSON.
func printPassed(out passed) error {
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	say(string(data))
	return nil
}

// passer makes passes, one after the other.
type passer struct {
	rec              *reconcile.Reconciler
	bundle           *event.Value[*bundle.Bundle]
	dir              string
	last             protocol.Content
	requests, writes atomic.Int64
}

// pass makes one pass. Like the sidecar, it does not load the same bundle again.
func (p *passer) pass(ctx context.Context, dir string, epoch int64) (passed, error) {
	var out passed
	begin := time.Now()
	if dir != p.dir {
		b, err := bundle.Load(dir)
		if err != nil {
			return out, err
		}
		p.bundle.Set(b)
		p.dir, out.Load = dir, time.Since(begin)
	}
	b := p.bundle.Get()
	work := protocol.Work{
		Content:  protocol.Content{Release: b.Version.Release, Constraints: b.Constraints, Digest: b.Digest, Epoch: epoch},
		Removals: true, LeaderEpoch: 1,
	}
	work.Wait = work.Content != p.last // because DONE follows
	if p.last == (protocol.Content{}) {
		mark, err := p.rec.Survey(ctx, work, time.Time{})
		if err != nil {
			return out, err
		}
		work.First = mark.Kind == protocol.MarkAbsent // as a leader decides
	}
	p.requests.Store(0)
	p.writes.Store(0)
	begin = time.Now()
	outcome, err := p.rec.Reconcile(ctx, work, func() time.Time { return time.Now().Add(time.Minute) }, time.Time{})
	out.Took = time.Since(begin)
	if err == nil && !outcome.Complete {
		err = fmt.Errorf("the pass was not complete: %s", p.rec.Report().Get().LastError)
	}
	p.last = work.Content
	out.Requests, out.Writes, out.Applied = p.requests.Load(), p.writes.Load(), p.rec.Report().Get().Objects.Applied
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	out.Heap = stats.HeapAlloc
	return out, err
}

// count counts the requests that next sends.
func (p *passer) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		p.requests.Add(1)
		if req.Method != http.MethodGet {
			p.writes.Add(1)
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// prepared returns the address of the API server, a client for it, and one patch for each object in dir.
func prepared(kubeconfig, dir string) (string, *http.Client, []patch, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", nil, nil, err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return "", nil, nil, err
	}
	patches, err := readyPatches(cfg.Host, dir)
	return cfg.Host, client, patches, err
}

// runBare is the peer "bare": one server-side apply patch for each object, some at
// the same time, and nothing else; with -create one POST of JSON; with -posts the POSTs that
// Lockstep sent. All requests are prepared before the clock starts, and the answers are ignored. No tool that applies can do less.
func runBare(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("bare", flag.ExitOnError)
	kubeconfig := set.String("kubeconfig", "", "")
	workers := set.Int("workers", 1, "")
	dir := set.String("dir", "", "")
	create := set.Bool("create", false, "")
	posts := set.String("posts", "", "")
	if err := set.Parse(args); err != nil {
		return err
	}
	host, client, patches, err := prepared(*kubeconfig, *dir)
	if err != nil {
		return err
	}
	if *create {
		for i, p := range patches {
			patches[i] = p.asCreation()
		}
	}
	if *posts != "" {
		if patches, err = readPosts(host, *posts); err != nil {
			return err
		}
	}
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for worker := range *workers {
		group.Go(func() error {
			for i := worker; i < len(patches); i += *workers {
				if err := patches[i].send(ctx, client); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return printPassed(passed{Took: time.Since(begin), Requests: int64(len(patches)), Writes: int64(len(patches))})
}

// runLists is the peer "lists": one list of each kind, all at the same time, of the objects that
// Lockstep applied. The answers are JSON, and are ignored. The connection is there before. As before the
// passes without change, etcd is written to just before: a kube-apiserver then waits until its cache has
// followed.
func runLists(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("lists", flag.ExitOnError)
	kubeconfig := set.String("kubeconfig", "", "")
	dir := set.String("dir", "", "")
	endpoint := set.String("etcd", "", "")
	if err := set.Parse(args); err != nil {
		return err
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{*endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }() // the process ends
	host, client, patches, err := prepared(*kubeconfig, *dir)
	if err != nil {
		return err
	}
	if err := (patch{method: http.MethodGet, url: strings.TrimSuffix(host, "/") + "/version"}).send(ctx, client); err != nil {
		return err
	}
	lists := map[string]patch{}
	for _, p := range patches {
		list := p.asCreation()
		list.method, list.body = http.MethodGet, nil
		list.url += "?" + url.Values{"labelSelector": {bundle.LabelPartOf}}.Encode()
		lists[list.url] = list
	}
	if _, err := etcd.Put(ctx, "/bench-bare", "x"); err != nil {
		return err
	}
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for _, list := range lists {
		group.Go(func() error { return list.send(ctx, client) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return printPassed(passed{Took: time.Since(begin), Requests: int64(len(lists))})
}

// patch is a prepared request.
type patch struct {
	method string // empty: a server-side apply patch
	url    string
	body   []byte
}

// asCreation returns the request that creates the object of a patch.
func (p patch) asCreation() patch {
	return patch{method: http.MethodPost, url: p.url[:strings.LastIndexByte(p.url, '/')], body: p.body}
}

// plurals are the resources of the bundles' kinds.
var plurals = map[string]string{
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "PriorityClass": "priorityclasses",
	"StorageClass": "storageclasses", "ConfigMap": "configmaps",
}

func readyPatches(host, dir string) ([]patch, error) {
	b, err := bundle.Load(dir)
	if err != nil {
		return nil, err
	}
	query := url.Values{"fieldManager": {"bare"}, "force": {"true"}}.Encode()
	var out []patch
	for _, obj := range b.Objects {
		body, err := obj.MarshalJSON()
		if err != nil {
			return nil, err
		}
		parts := []string{strings.TrimSuffix(host, "/"), "apis", obj.GetAPIVersion()}
		if !strings.Contains(obj.GetAPIVersion(), "/") {
			parts[1] = "api"
		}
		if ns := obj.GetNamespace(); ns != "" {
			parts = append(parts, "namespaces", ns)
		}
		parts = append(parts, plurals[obj.GetKind()], url.PathEscape(obj.GetName())+"?"+query)
		out = append(out, patch{url: strings.Join(parts, "/"), body: body})
	}
	return out, nil
}

func (p patch) send(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, cmp.Or(p.method, http.MethodPatch), p.url, bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if p.method == "" {
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("%s answered %s: %s", p.url, resp.Status, text), err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
