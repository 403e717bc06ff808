package repotest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep"
)

var rewrite = flag.Bool("rewrite", false, "write docs/metrics.md")

const metricsPage = "docs/metrics.md"

// family is a metric as /metrics shows it.
type family struct {
	name, kind, help string
	labels           map[string]map[string]bool // values by name
}

// TestMetricsAreDocumented compares docs/metrics.md with what a sidecar shows
// that has just started. All series with labels are created at start, so it
// shows all there are.
func TestMetricsAreDocumented(t *testing.T) {
	families := parseMetrics(scrape(t, workersStarted(t)))
	wantNames(t, families)
	want := metricsDoc(families)
	if *rewrite {
		if err := os.WriteFile(filepath.Join(root, metricsPage), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, read(t, metricsPage)); diff != "" {
		t.Errorf("%s is not what the program shows (-want +got); go test ./internal/repotest -rewrite writes it:\n%s", metricsPage, diff)
	}
}

// wantNames holds names and helps to Prometheus' conventions, and ours.
func wantNames(t *testing.T, families []family) {
	t.Helper()
	form := regexp.MustCompile(`^lockstep_(gate|node|service|services|status|election|reconcile|httpapi|fleet|etcd|app|certificate|cluster|history|endpoints)_[a-z_]+$`)
	for _, f := range families {
		switch {
		case form.MatchString(f.name):
		case f.name == "lockstep_readyz": // an answer, not a package's
		case f.name == "lockstep_reviews_total": // what it counts is what its package is named for
		default:
			t.Errorf("%s: want lockstep_PACKAGE_WHAT_UNIT", f.name)
		}
		if (f.kind == "counter") != strings.HasSuffix(f.name, "_total") {
			t.Errorf("%s is a %s: counters, and only they, end in _total", f.name, f.kind)
		}
		if len(f.help) < 20 {
			t.Errorf("%s: its help %q does not say what to do with it", f.name, f.help)
		}
	}
}

// workersStarted reports whether /metrics has the series of every worker that the page
// names: a worker creates its own when it is started, a moment after the sidecar.
func workersStarted(t *testing.T) func(metrics string) bool {
	t.Helper()
	_, row, _ := strings.Cut(read(t, metricsPage), "`worker`: ")
	names, _, _ := strings.Cut(row, ")")
	return func(metrics string) bool {
		for name := range strings.SplitSeq(names, ", ") {
			if !strings.Contains(metrics, `{worker="`+name+`"}`) {
				return false
			}
		}
		return true
	}
}

// scrape starts a sidecar whose etcd and apiserver do not answer, and returns its
// /metrics: as soon as it is complete, or after a while.
func scrape(t *testing.T, complete func(metrics string) bool) string {
	t.Helper()
	opts := lockstep.Defaults()
	opts.NodeID, opts.Listen = "a", "127.0.0.1:0"
	opts.Etcd = lockstep.External{Servers: []string{"http://127.0.0.1:1"}}
	opts.Kubeconfig, opts.Bundle = writeKubeconfig(t), lockstep.BuiltinBundle
	opts.AuthenticationKubeconfig, opts.AuthorizationKubeconfig = opts.Kubeconfig, opts.Kubeconfig
	opts.AuthorizationAlwaysAllowPaths = []string{"/metrics"}
	opts.DataDir, opts.Services, opts.AdvertiseURL = t.TempDir(), writeServices(t), "http://10.0.0.1:8086"
	a, err := lockstep.New(opts, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	deadline := time.After(time.Minute)
	for {
		metrics := get(t, a.URL()+"/metrics")
		if complete(metrics) {
			return metrics
		}
		select {
		case <-deadline:
			return metrics
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(body)
}

// writeServices writes a directory with one service, which does not start: the sidecar does not
// learn its roles.
func writeServices(t *testing.T) string {
	t.Helper()
	const text = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: metadata-name}\nrole: kubernetes_controller\n" +
		"process: {command: [/bin/sleep, infinity]}\n"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeKubeconfig(t *testing.T) string {
	t.Helper()
	const text = `apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: local, context: {cluster: local, user: local}}]
users: [{name: local, user: {}}]
current-context: local
`
	name := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

var seriesLine = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? `)
var labelPair = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// parseMetrics reads the text form, as far as our own metrics go.
func parseMetrics(text string) []family {
	var out []family
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP lockstep_"); ok {
			name, help, _ := strings.Cut("lockstep_"+rest, " ")
			out = append(out, family{name: name, help: help, labels: map[string]map[string]bool{}})
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE lockstep_"); ok {
			_, out[len(out)-1].kind, _ = strings.Cut(rest, " ")
		}
		if m := seriesLine.FindStringSubmatch(line); m != nil && strings.HasPrefix(line, "lockstep_") {
			out[len(out)-1].add(m[2])
		}
	}
	return out
}

func (f family) add(labels string) {
	for _, pair := range labelPair.FindAllStringSubmatch(labels, -1) {
		if pair[1] == "le" { // buckets
			continue
		}
		if f.labels[pair[1]] == nil {
			f.labels[pair[1]] = map[string]bool{}
		}
		f.labels[pair[1]][pair[2]] = true
	}
}

const metricsHead = `# Metrics

<!-- Written by ` + "`go test ./internal/repotest -rewrite`" + ` from a running sidecar. Do not edit. -->

What ` + "`/metrics`" + ` shows, besides the usual ` + "`go_*` and `process_*` (without `process_network_*`)" + ` of a Go program. Label values are those that
are there from the start; further status codes appear when they are answered. [operations.md](operations.md#alerts)
has alerts to begin with.

`

func metricsDoc(families []family) string {
	var b strings.Builder
	b.WriteString(metricsHead)
	listed := map[string]string{} // long lists of values, with the metric that has them
	for _, f := range families {
		fmt.Fprintf(&b, "- `%s` (%s%s): %s\n", f.name, f.kind, f.labelText(listed), f.help)
	}
	return b.String()
}

// longList is the number of values of a label that the page lists once, for the first metric.
const longList = 12

func (f family) labelText(listed map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f.labels)) {
		values := slices.Sorted(maps.Keys(f.labels[name]))
		text := strings.Join(values, ", ")
		if first, found := listed[text]; found {
			text = "as in `" + first + "`"
		} else if len(values) >= longList {
			listed[text] = f.name
		}
		fmt.Fprintf(&out, "; `%s`: %s", name, text)
	}
	return out.String()
}
