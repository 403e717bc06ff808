package alerts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const rulesFile = "../../deploy/prometheus/rules.yaml"

// alert is one of the rules.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// situation changes the healthy world. fires are the alerts that then fire, with the labels that
// they have besides severity. alone: others would change what fires.
type situation struct {
	name   string
	change func(world)
	fires  fires
	alone  bool
}

// on sets values of the first control plane's series on some nodes, or on all.
func on(name, labels, values string, of ...string) func(world) {
	if len(of) == 0 {
		of = nodes
	}
	return func(w world) {
		for _, node := range of {
			key := series("aaaa", node, name, labels)
			if _, known := w[key]; !known {
				panic("the healthy world has no series " + key)
			}
			w[key] = values
		}
	}
}

func together(changes ...func(world)) func(world) {
	return func(w world) {
		for _, change := range changes {
			change(w)
		}
	}
}

// missing deletes every series of some nodes of the first control plane.
func missing(of ...string) func(world) {
	return func(w world) {
		for key := range w {
			for _, node := range of {
				if strings.Contains(key, `instance="`+node+`-aaaa"`) {
					delete(w, key)
				}
			}
		}
	}
}

// gone ends the first control plane.
func gone(w world) {
	for _, node := range nodes {
		ends(node)(w)
	}
}

// renamed gives the first control plane another store, as when its etcd was lost: the series of the former one end.
func renamed(w world) {
	for key, value := range infos() {
		w[strings.Replace(key, `store="aaaa"`, `store="cccc"`, 1)] = fmt.Sprintf("_x%d 1x%d", asked-21, minutes-asked+20)
		w[key] = value + " stale"
	}
}

// infos returns the series with the names of the first control plane's nodes, until 20 minutes before the alerts are asked for.
func infos() world {
	w := world{}
	for key := range healthy() {
		if strings.HasPrefix(key, "lockstep_node_info{") && strings.Contains(key, `store="aaaa"`) {
			w[key] = fmt.Sprintf("1x%d", asked-21)
		}
	}
	return w
}

// ofPlane returns the labels of alerts about a control plane, ofNode those about one node.
func ofPlane() map[string]string { return map[string]string{"store": "aaaa"} }

func ofNode(id string, more ...string) map[string]string {
	out := map[string]string{"store": "aaaa", "node": id, "job": "lockstep", "instance": id + "-aaaa"}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

type fires = map[string][]map[string]string

// TestRules: promtool accepts the file, and each alert fires in its situation alone.
func TestRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v; Debian and Ubuntu have it: apt-get install prometheus", err)
	}
	run(t, promtool, "check", "rules", "--lint=all", rulesFile)

	alerts := load(t)
	inAny := map[string]bool{}
	dir := t.TempDir()
	var tests strings.Builder
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&tests, "rule_files: [%s]\nevaluation_interval: 10m\ngroup_eval_order: [lockstep-recording, lockstep]\ntests:\n", rules)
	for _, b := range batches() {
		fmt.Fprintf(&tests, "  - name: %q\n    interval: 1m\n    input_series:\n%s    alert_rule_test:\n", strings.Join(b.names, "; "), b.world.yaml())
		for name := range b.fires {
			inAny[name] = true
		}
		for _, a := range alerts {
			tests.WriteString(a.expectation(t, b.fires))
		}
	}
	for _, a := range alerts {
		if !inAny[a.Alert] {
			t.Errorf("no situation makes %s fire", a.Alert)
		}
	}
	file := filepath.Join(dir, "tests.yaml")
	if err := os.WriteFile(file, []byte(tests.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, promtool, "test", "rules", file)
}

// TestAlertsAreDocumented: who follows the link of an alert finds its row, and every metric exists.
func TestAlertsAreDocumented(t *testing.T) {
	page, metrics := read(t, "../../docs/operations.md"), read(t, "../../docs/metrics.md")
	metric := regexp.MustCompile(`lockstep_[a-z_]+[a-z]`)
	for _, a := range load(t) {
		anchor := strings.ToLower(a.Alert)
		row := fmt.Sprintf("\n- <a id=%q></a>`%s` (%s, %s): ", anchor, a.Alert, a.Labels["severity"], cmp.Or(a.For, "at once"))
		if !strings.Contains(page, row) {
			t.Errorf("docs/operations.md has no line that begins with %q", row)
		}
		if _, got, _ := strings.Cut(a.Annotations["runbook_url"], "docs/operations.md#"); got != anchor {
			t.Errorf("%s: its runbook_url leads to %q, want %q", a.Alert, got, anchor)
		}
		if a.Annotations["command"] == "" {
			t.Errorf("%s has no command", a.Alert)
		}
		for _, name := range metric.FindAllString(a.Expr, -1) {
			if name = strings.TrimSuffix(name, "_bucket"); !strings.Contains(metrics, "- `"+name+"` (") {
				t.Errorf("%s: docs/metrics.md has no metric %s", a.Alert, name)
			}
		}
	}
}

// expectation is the entry of an alert in the test of a world in which some alerts fire.
func (a alert) expectation(t *testing.T, firing fires) string {
	t.Helper()
	expected := []any{}
	for _, labels := range firing[a.Alert] {
		annotations := map[string]string{}
		for name, text := range a.Annotations {
			annotations[name] = reference.ReplaceAllStringFunc(text, func(m string) string {
				return labels[reference.FindStringSubmatch(m)[1]]
			})
		}
		all := maps.Clone(labels)
		all["severity"] = a.Labels["severity"]
		expected = append(expected, map[string]any{"exp_labels": all, "exp_annotations": annotations})
	}
	out, err := json.Marshal(expected)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("      - {eval_time: 7h, alertname: %s, exp_alerts: %s}\n", a.Alert, out)
}

// reference is a label in an annotation.
var reference = regexp.MustCompile(`\{\{ \$labels\.(\w+) \}\}`)

// load reads the alerts.
func load(t *testing.T) []alert {
	t.Helper()
	text := read(t, rulesFile)
	var file struct {
		Groups []struct {
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	var out []alert
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				out = append(out, rule)
			}
		}
	}
	slices.SortFunc(out, func(a, b alert) int { return cmp.Compare(a.Alert, b.Alert) })
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
