// Package prometheus runs a real Prometheus for tests, with the configuration and the alerts of deploy/prometheus. It has
// the alerts twice: as they are, and as copies that fire at once.
package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	shippedDir = "../../deploy/prometheus/" // from a package below test/
	// Prefix is that of all alerts.
	Prefix = "Lockstep"
	// Soon is the prefix of the copies of the alerts that do not wait ("for").
	Soon = "Soon"
)

// Prometheus is Debian's.
type Prometheus struct {
	*testing.T
	url    string
	alerts []string
	groups []targets
	file   string // with groups
}

// Client is how it reaches sidecars. The zero Client uses HTTP, without a token.
type Client struct {
	Authority, Token string
}

// podPort is the named port of a sidecar's pod.
const podPort = "lockstep"

// targets is an entry of a file for the discovery.
type targets struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// Start starts one, or skips the test where there is none. Debian builds it without the discovery of pods: a file has what
// that would find.
func Start(t *testing.T, client Client) *Prometheus {
	t.Helper()
	p, err := Try(t, client)
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	return p
}

// Try does the same, and returns an error where there is none.
func Try(t *testing.T, client Client) (*Prometheus, error) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, fmt.Errorf("%w; Debian and Ubuntu have it: apt-get install prometheus", err)
	}
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &Prometheus{T: t, url: "http://" + addr, file: filepath.Join(dir, "targets.json")}
	p.Discover(nil)
	p.writeFile(filepath.Join(dir, "token"), []byte(client.Token))
	shipped, err := filepath.Abs(shippedDir + "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.writeSoon(filepath.Join(dir, "soon.yaml"))
	config := strings.NewReplacer(
		"15s", "1s", "[rules.yaml]", "["+shipped+", soon.yaml]",
		"kubernetes_sd_configs:", "file_sd_configs:", "{role: pod, namespaces: {names: [kube-system]}}", "{files: ["+p.file+"]}",
		"scheme: https", "scheme: "+client.scheme(), "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", client.Authority,
		"/var/run/secrets/kubernetes.io/serviceaccount/token", filepath.Join(dir, "token"),
	).Replace(string(p.readFile(shippedDir + "prometheus.yaml")))
	p.writeFile(filepath.Join(dir, "prometheus.yaml"), []byte(config))

	var output bytes.Buffer
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cluster.StartCommand(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("Prometheus says:\n%s\nand these alerts fired:\n%v", output.String(), p.alerts)
		}
	})
	cluster.Await(t, "Prometheus to answer", func(ctx context.Context) error {
		_, err := p.ask(ctx, "1", "")
		return err
	})
	return p, nil
}

func (c Client) scheme() string {
	if c.Authority == "" {
		return "http"
	}
	return "https"
}

// Scrape adds sidecars.
func (p *Prometheus) Scrape(addresses ...string) {
	p.Helper()
	more := map[string]string{}
	for _, address := range addresses {
		more[address] = podPort
	}
	p.Discover(more)
}

// Discover adds targets, each with the name of its port.
func (p *Prometheus) Discover(more map[string]string) {
	p.Helper()
	for target, port := range more {
		p.groups = append(p.groups, targets{[]string{target}, map[string]string{"__meta_kubernetes_pod_container_port_name": port}})
	}
	text, err := json.Marshal(append([]targets{}, p.groups...))
	if err != nil {
		p.Fatal(err)
	}
	p.writeFile(p.file+".new", text)
	if err := os.Rename(p.file+".new", p.file); err != nil {
		p.Fatal(err)
	}
}

// writeSoon writes a copy of the alerts without the time for which each waits.
func (p *Prometheus) writeSoon(path string) {
	p.Helper()
	var file struct {
		Groups []struct {
			Name  string           `json:"name"`
			Rules []map[string]any `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(p.readFile(shippedDir+"rules.yaml"), &file); err != nil {
		p.Fatal(err)
	}
	for i := range file.Groups {
		file.Groups[i].Name = Soon + file.Groups[i].Name
		file.Groups[i].Rules = slices.DeleteFunc(file.Groups[i].Rules, func(rule map[string]any) bool { return rule["alert"] == nil })
		for _, rule := range file.Groups[i].Rules {
			name, expr := fmt.Sprint(rule["alert"]), fmt.Sprint(rule["expr"])
			p.alerts = append(p.alerts, name)
			delete(rule, "for")
			// These have their time in their expression.
			rule["alert"], rule["expr"] = Soon+name, strings.NewReplacer("< time() - 120", "< time()", " offset 30m", "").Replace(expr)
		}
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		p.Fatal(err)
	}
	p.writeFile(path, text)
}

func (p *Prometheus) readFile(path string) []byte {
	p.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		p.Fatal(err)
	}
	return text
}

func (p *Prometheus) writeFile(path string, text []byte) {
	p.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.Fatal(err)
	}
}

// ask evaluates an expression now, and returns the values by the value of a label.
func (p *Prometheus) ask(ctx context.Context, expr, label string) (map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error != "" {
		return nil, fmt.Errorf("%s: %s, %w", expr, answer.Error, err)
	}
	out := map[string]string{}
	if answer.Data.ResultType != "vector" {
		return out, nil
	}
	var result []struct {
		Metric map[string]string
		Value  [2]any
	}
	if err := json.Unmarshal(answer.Data.Result, &result); err != nil {
		return nil, err
	}
	for _, r := range result {
		out[r.Metric[label]] = fmt.Sprint(r.Value[1])
	}
	return out, nil
}

// Await waits until an expression has these values, by a label.
func (p *Prometheus) Await(expr, label string, want map[string]string) {
	p.Helper()
	cluster.Await(p.T, expr, func(ctx context.Context) error {
		got, err := p.ask(ctx, expr, label)
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("got %v, want %v", got, want)
		}
		return err
	})
}

// fired returns the alerts with a prefix that have fired at any time in a store, or fire without a store.
func (p *Prometheus) fired(ctx context.Context, prefix, store string) (map[string]string, error) {
	return p.ask(ctx, fmt.Sprintf(`max by (alertname) (max_over_time(ALERTS{alertstate="firing",alertname=~"%s%s.*",store=~"%s|"}[1h]))`,
		prefix, Prefix, store), "alertname")
}

// Fires waits until each of these alerts has fired for a store at any time, without the time for which it waits.
func (p *Prometheus) Fires(store string, alerts ...string) {
	p.Helper()
	cluster.Await(p.T, fmt.Sprintf("alerts %v of store %s", alerts, store), func(ctx context.Context) error {
		got, err := p.fired(ctx, Soon, store)
		var missing []string
		for _, name := range alerts {
			if got[Soon+Prefix+name] == "" {
				missing = append(missing, name)
			}
		}
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("these did not fire: %v", missing)
		}
		return err
	})
}

// Only requires that of the alerts as they are, none fired for a store but these.
func (p *Prometheus) Only(store string, alerts ...string) {
	p.Helper()
	got, err := p.fired(p.Context(), "", store)
	if err != nil {
		p.Fatal(err)
	}
	for name := range got {
		if !slices.Contains(alerts, strings.TrimPrefix(name, Prefix)) {
			p.Errorf("for the store %s, %s fired", store, name)
		}
	}
}

// Draws requires that each query of the dashboard has values, of what real sidecars serve: its metrics, labels and their values
// exist.
func (p *Prometheus) Draws(store string) {
	p.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(p.readFile("../../deploy/grafana/lockstep.json"), &dashboard); err != nil {
		p.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expr := strings.NewReplacer("$__rate_interval", "1m", "$store", store).Replace(target.Expr)
			cluster.Await(p.T, "a value in the panel "+panel.Title, func(ctx context.Context) error {
				got, err := p.ask(ctx, expr, "")
				if err == nil && len(got) == 0 {
					err = fmt.Errorf("%s has none", expr)
				}
				return err
			})
		}
	}
}

// Store waits for the store of a node, and returns it.
func (p *Prometheus) Store(node string) string {
	p.Helper()
	var out string
	cluster.Await(p.T, "the store of "+node, func(ctx context.Context) error {
		got, err := p.ask(ctx, fmt.Sprintf(`lockstep_node_info{node=%q,store!=""}`, node), "store")
		for out = range got {
			return err
		}
		return errors.Join(errors.New("not scraped"), err)
	})
	return out
}

// OfMembers are the alerts that only an etcd of the sidecars' own can cause.
func OfMembers() []string {
	return []string{"DatabaseNearlyFull", "MemberDiskSlow", "MemberLeaderChanges", "MemberUnhealthy", "SnapshotOld"}
}

// WantAll requires that each alert but OfMembers fired at any time.
func (p *Prometheus) WantAll(stores ...string) {
	p.Helper()
	got, err := p.fired(p.Context(), Soon, strings.Join(stores, "|"))
	if err != nil {
		p.Fatal(err)
	}
	for _, name := range p.alerts {
		if got[Soon+name] == "" && !slices.Contains(OfMembers(), strings.TrimPrefix(name, Prefix)) {
			p.Errorf("%s did not fire", name)
		}
	}
}

// Silent waits until no copy of an alert about all nodes fires.
func (p *Prometheus) Silent(store string, d time.Duration) {
	p.Helper()
	p.Await(fmt.Sprintf(`count(max_over_time(ALERTS{alertstate="firing",alertname=~"%s%s(TwoLeaders|NoLeader|NoNodeServes|NodeNotScraped)",store=%q}[%s]))`,
		Soon, Prefix, store, d), "", map[string]string{})
}
