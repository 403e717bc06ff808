package e2e_test

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
	prometheusDir = "../../deploy/prometheus/"
	alertPrefix   = "Lockstep"
	// soonPrefix is the prefix of the copies of the alerts that do not wait ("for").
	soonPrefix = "Soon"
)

// prometheus is Debian's Prometheus, with the configuration and the rules of deploy/prometheus. It has
// the alerts twice: as they are, and as copies that fire at once.
type prometheus struct {
	*testing.T
	url    string
	alerts []string
	groups []targets
	file   string // with groups
}

// targets is an entry of a file for the discovery.
type targets struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// startPrometheus starts one that shows sidecars a token. Debian builds it without the discovery of pods:
// a file has what that would find.
func startPrometheus(t *testing.T, authority, token string) *prometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v; Debian and Ubuntu have it: apt-get install prometheus", err)
	}
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &prometheus{T: t, url: "http://" + addr, file: filepath.Join(dir, "targets.json")}
	p.discover(nil)
	p.writeFile(filepath.Join(dir, "token"), []byte(token))
	shipped, err := filepath.Abs(prometheusDir + "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.writeSoon(filepath.Join(dir, "soon.yaml"))
	config := strings.NewReplacer(
		"15s", "1s", "[rules.yaml]", "["+shipped+", soon.yaml]",
		"kubernetes_sd_configs:", "file_sd_configs:", "{role: pod, namespaces: {names: [kube-system]}}", "{files: ["+p.file+"]}",
		"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", authority,
		"/var/run/secrets/kubernetes.io/serviceaccount/token", filepath.Join(dir, "token"),
	).Replace(string(p.readFile(prometheusDir + "prometheus.yaml")))
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
	return p
}

// discover adds targets, each with the name of its port.
func (p *prometheus) discover(more map[string]string) {
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
func (p *prometheus) writeSoon(path string) {
	p.Helper()
	var file struct {
		Groups []struct {
			Name  string           `json:"name"`
			Rules []map[string]any `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(p.readFile(prometheusDir+"rules.yaml"), &file); err != nil {
		p.Fatal(err)
	}
	for i := range file.Groups {
		file.Groups[i].Name = soonPrefix + file.Groups[i].Name
		file.Groups[i].Rules = slices.DeleteFunc(file.Groups[i].Rules, func(rule map[string]any) bool { return rule["alert"] == nil })
		for _, rule := range file.Groups[i].Rules {
			name, expr := fmt.Sprint(rule["alert"]), fmt.Sprint(rule["expr"])
			p.alerts = append(p.alerts, name)
			delete(rule, "for")
			// This alert has its time in its expression.
			rule["alert"], rule["expr"] = soonPrefix+name, strings.Replace(expr, "< time() - 120", "< time()", 1)
		}
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		p.Fatal(err)
	}
	p.writeFile(path, text)
}

func (p *prometheus) readFile(path string) []byte {
	p.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		p.Fatal(err)
	}
	return text
}

func (p *prometheus) writeFile(path string, text []byte) {
	p.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.Fatal(err)
	}
}

// ask evaluates an expression now, and returns the values by the value of a label.
func (p *prometheus) ask(ctx context.Context, expr, label string) (map[string]string, error) {
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

// await waits until an expression has these values, by a label.
func (p *prometheus) await(expr, label string, want map[string]string) {
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
func (p *prometheus) fired(ctx context.Context, prefix, store string) (map[string]string, error) {
	return p.ask(ctx, fmt.Sprintf(`max by (alertname) (max_over_time(ALERTS{alertstate="firing",alertname=~"%s%s.*",store=~"%s|"}[1h]))`,
		prefix, alertPrefix, store), "alertname")
}

// fires waits until each of these alerts has fired for a store at any time, without the time for which it waits.
func (p *prometheus) fires(store string, alerts ...string) {
	p.Helper()
	cluster.Await(p.T, fmt.Sprintf("alerts %v of store %s", alerts, store), func(ctx context.Context) error {
		got, err := p.fired(ctx, soonPrefix, store)
		var missing []string
		for _, name := range alerts {
			if got[soonPrefix+alertPrefix+name] == "" {
				missing = append(missing, name)
			}
		}
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("these did not fire: %v", missing)
		}
		return err
	})
}

// only requires that of the alerts as they are, none fired for a store but these.
func (p *prometheus) only(store string, alerts ...string) {
	p.Helper()
	got, err := p.fired(p.Context(), "", store)
	if err != nil {
		p.Fatal(err)
	}
	for name := range got {
		if !slices.Contains(alerts, strings.TrimPrefix(name, alertPrefix)) {
			p.Errorf("for the store %s, %s fired", store, name)
		}
	}
}

// draws requires that each query of the dashboard has values, of what real sidecars serve: its metrics, labels and their values
// exist.
func (p *prometheus) draws(store string) {
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

// store waits for the store of a node, and returns it.
func (p *prometheus) store(node string) string {
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

// notCaused are alerts whose situations would take minutes, or need an etcd that the sidecars run. test/alerts has all.
var notCaused = []string{
	"DatabaseNearlyFull", "EndpointsOverwritten", "LeadersLost", "MemberDiskSlow", "MemberLeaderChanges",
	"MemberUnhealthy", "SnapshotOld", "TwoLeaders", "WorkerFails",
}

// wantAll requires that each alert fired at any time, if its situation was caused.
func (p *prometheus) wantAll(stores ...string) {
	p.Helper()
	got, err := p.fired(p.Context(), soonPrefix, strings.Join(stores, "|"))
	if err != nil {
		p.Fatal(err)
	}
	for _, name := range p.alerts {
		if got[soonPrefix+name] == "" && !slices.Contains(notCaused, strings.TrimPrefix(name, alertPrefix)) {
			p.Errorf("%s did not fire", name)
		}
	}
}

// silent waits until no copy of an alert about all nodes fires.
func (p *prometheus) silent(store string, d time.Duration) {
	p.Helper()
	p.await(fmt.Sprintf(`count(max_over_time(ALERTS{alertstate="firing",alertname=~"%s%s(TwoLeaders|NoLeader|NoNodeServes|NodeNotScraped)",store=%q}[%s]))`,
		soonPrefix, alertPrefix, store, d), "", map[string]string{})
}
