package views

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/kubeadmnode"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/kubeaccess"
	"github.com/lockstep-dev/lockstep/internal/support"
)

// etcdLimit is for one part that asks etcd.
const etcdLimit = 10 * time.Second

// parts are everything that is collected.
func (s supportSources) parts() []support.Part {
	const text, structured = "text/plain", "application/json"
	verbose := url.Values{"verbose": {""}}
	return []support.Part{
		{Name: "version.json", About: "this program", Collect: func(context.Context) ([]byte, error) { return asJSON(versionFacts()) }},
		{Name: "system.txt", About: "kernel, load and memory of this machine", Collect: system},
		{Name: "status.json", About: "status of the sidecar", Collect: s.shown("/status", structured)},
		{Name: "readyz.txt", About: "its checks", Collect: s.checks},
		{Name: "sidecar-version.json", About: "its version", Collect: s.shown("/version", structured)},
		{Name: "flags.txt", About: "its flags", Collect: s.shown("/flagz", text)},
		{Name: "metrics.txt", About: "its metrics", Collect: s.shown("/metrics", text)},
		{Name: "etcd-metrics.txt", About: "metrics of its etcd member", Collect: s.shown("/metrics/etcd", text)},
		{Name: "recording.gz", About: "its flight recorder; to read it: sidecar replay FILE", Collect: s.shown("/debug/recording", "application/gzip")},
		{Name: "last-recording.gz", About: "recording of the last end by an error", Collect: s.lastRecording},
		{Name: "history.json", About: "what happened", Collect: s.history},
		{Name: "history.txt", About: "the same to read, as sidecar history prints it", Collect: s.historyText},
		{Name: "store.json", About: "keys of the store, without secrets", Collect: s.storeKeys},
		{Name: "etcd-servers.json", About: "etcd servers and their versions", Collect: s.etcdServers},
		{Name: "certificates.json", About: "certificates, without keys", Collect: s.certificates},
		{Name: "kubernetes-version.json", About: "version of the kube-apiserver", Collect: s.kubernetes("/version", nil)},
		{Name: "kubernetes-readyz.txt", About: "checks of the kube-apiserver", Collect: s.kubernetes("/readyz", verbose)},
		{Name: "kubeadm.json", About: "findings of sidecar kubeadm --check", Collect: s.kubeadmCheck},
	}
}

func asJSON(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }

// system reads the files in which Linux describes the machine; a missing one is left out.
func system(context.Context) ([]byte, error) {
	var out strings.Builder
	for _, name := range []string{"version", "uptime", "loadavg", "meminfo", "pressure/io", "pressure/memory"} {
		if content, err := os.ReadFile("/proc/" + name); err == nil {
			fmt.Fprintf(&out, "# /proc/%s\n%s\n", name, content)
		}
	}
	if out.Len() == 0 {
		return nil, errors.New("/proc cannot be read")
	}
	return []byte(out.String()), nil
}

// shown returns the sidecar's answer to a path.
func (s supportSources) shown(path, accept string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		resp, err := s.server.Get(ctx, path, accept)
		if err != nil {
			return nil, err
		}
		defer reach.CloseBody(resp)
		return io.ReadAll(resp.Body)
	}
}

// checks are of interest in particular if they fail.
func (s supportSources) checks(ctx context.Context) ([]byte, error) {
	resp, err := s.server.Request(ctx, "/readyz?verbose", "text/plain")
	if err != nil {
		return nil, err
	}
	defer reach.CloseBody(resp)
	body, err := io.ReadAll(resp.Body)
	return slices.Concat([]byte(resp.Status+"\n"), body), err
}

func (s supportSources) lastRecording(context.Context) ([]byte, error) {
	dir := cmp.Or(s.f.etcd.DataDir, lockstep.Defaults().DataDir)
	text, err := os.ReadFile(datadir.Layout(dir).Recording())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no sidecar left one in %s (--data-dir); without that directory, a sidecar keeps none", dir)
	}
	return text, err
}

// withEtcd makes a part of the values that read gets from etcd.
func (s supportSources) withEtcd(ctx context.Context, read func(context.Context, *etcd.Client) (any, error)) ([]byte, error) {
	if s.reachErr != nil {
		return nil, s.reachErr
	}
	ctx, cancel := context.WithTimeout(ctx, etcdLimit)
	defer cancel()
	client, err := etcd.NewClient(s.reach)
	if err != nil {
		return nil, err
	}
	out, err := read(ctx, client)
	if err := errors.Join(err, client.Close()); err != nil {
		return nil, err
	}
	return asJSON(out)
}

// keyReport is a key in store.json.
type keyReport struct {
	Key     string `json:"key"`
	Created int64  `json:"createRevision"`
	Changed int64  `json:"modRevision"`
	Version int64  `json:"version"`
	Bytes   int    `json:"bytes"`
	Base64  string `json:"base64"` // empty: the value is empty, or may contain a secret
}

func (s supportSources) storeKeys(ctx context.Context) ([]byte, error) {
	return s.withEtcd(ctx, func(ctx context.Context, client *etcd.Client) (any, error) {
		all, err := fleet.ReadStoreKeys(ctx, client)
		if err != nil {
			return nil, err
		}
		keys := make([]keyReport, 0, len(all.Keys))
		for _, kv := range all.Keys {
			k := keyReport{Key: kv.Key, Created: kv.CreateRevision, Changed: kv.ModRevision, Version: kv.Version, Bytes: len(kv.Value)}
			if string(support.Redact(kv.Value)) == string(kv.Value) {
				k.Base64 = base64.StdEncoding.EncodeToString(kv.Value)
			}
			keys = append(keys, k)
		}
		return map[string]any{
			"prefix": all.Prefix, "revision": all.Revision, "etcdCluster": strconv.FormatUint(all.EtcdCluster, 16), "keys": keys,
		}, nil
	})
}

func (s supportSources) etcdServers(ctx context.Context) ([]byte, error) {
	return s.withEtcd(ctx, func(ctx context.Context, client *etcd.Client) (any, error) {
		type server struct {
			Endpoint string   `json:"endpoint"`
			Version  string   `json:"version"`
			Problems []string `json:"problems"`
		}
		out := struct {
			Servers  []server `json:"servers"` // those that answer
			Asked    []string `json:"asked"`
			Problems []string `json:"problems"`
		}{Servers: []server{}, Asked: client.Endpoints(), Problems: client.Diagnose(ctx)}
		for _, v := range client.Servers(ctx) {
			found := server{Endpoint: v.Endpoint, Version: v.Version, Problems: []string{}}
			if fault := etcd.KnownFault(v.Version); fault != "" {
				found.Problems = append(found.Problems, fault)
			}
			out.Servers = append(out.Servers, found)
		}
		return out, nil
	})
}

// certificates collects the certificates that this command uses, and the ones in the data directory and in the
// sidecar's flags.
func (s supportSources) certificates(ctx context.Context) ([]byte, error) {
	files := []string{s.reach.CAFile, s.reach.CertFile, s.f.server.CAFile, s.f.server.CertFile}
	if s.f.etcd.DataDir != "" {
		more, err := filepath.Glob(filepath.Join(datadir.Layout(s.f.etcd.DataDir).PKI(), "*.crt"))
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	files = append(files, s.filesOfFlags(ctx)...)
	slices.Sort(files)
	var sources []support.Source
	for _, file := range slices.Compact(files) {
		if file != "" {
			sources = append(sources, support.Source{Name: file})
		}
	}
	if s.f.kubeconfig != "" {
		access, err := kubeaccess.New(s.f.kubeconfig)
		if err != nil {
			return nil, err
		}
		for _, in := range []support.Source{{Name: "client certificate", Content: access.ClientCert}, {Name: "CA", Content: access.CA}} {
			if len(in.Content) > 0 {
				sources = append(sources, support.Source{Name: s.f.kubeconfig + " (" + in.Name + ")", Content: in.Content})
			}
		}
	}
	return support.Certificates(sources)
}

// filesOfFlags are the files with certificates that the sidecar's flags name; none if it does not answer.
func (s supportSources) filesOfFlags(ctx context.Context) (out []string) {
	text, err := s.shown("/flagz", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz")(ctx)
	var page struct {
		Flags map[string]string `json:"flags"`
	}
	if err != nil || json.Unmarshal(text, &page) != nil {
		return nil
	}
	for _, flag := range []string{"etcd-cafile", "etcd-certfile", "tls-cert-file", "client-ca-file"} {
		out = append(out, page.Flags[flag])
	}
	return out
}

// kubernetes returns the kube-apiserver's answer to a path.
func (s supportSources) kubernetes(path string, query url.Values) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		if s.f.kubeconfig == "" {
			return nil, errors.New("it was not asked: set --kubeconfig")
		}
		access, err := kubeaccess.New(s.f.kubeconfig)
		if err != nil {
			return nil, err
		}
		return access.Get(ctx, path, query)
	}
}

func (s supportSources) kubeadmCheck(ctx context.Context) ([]byte, error) {
	findings, err := kubeadmnode.Findings(ctx, s.p.Program, s.f.kubernetesDir)
	if err != nil {
		return nil, err
	}
	return asJSON(findings)
}
