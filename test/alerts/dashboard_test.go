package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const dashboardFile = "../../deploy/grafana/lockstep.json"

// dashboard is what the test needs of Grafana's form.
type dashboard struct {
	Panels []struct {
		ID          int    `json:"id"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Datasource  struct {
			Type string `json:"type"`
			UID  string `json:"uid"`
		} `json:"datasource"`
		Targets []struct {
			RefID string `json:"refId"`
			Expr  string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// TestDashboard: promtool parses every query, and each metric is one of docs/metrics.md, which a
// running sidecar has written, or a record of the rules.
func TestDashboard(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v; Debian and Ubuntu have it: apt-get install prometheus", err)
	}
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	known := read(t, "../../docs/metrics.md") + read(t, rulesFile)
	metric := regexp.MustCompile(`\blockstep[_:][a-z0-9_:]+`)
	ids := map[int]bool{}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for _, p := range d.Panels {
		if p.Title == "" || p.Description == "" || ids[p.ID] || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %d: its ID is there twice, or it has no title, description, query or data source", p.ID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$store", ".*").Replace(target.Expr)
			fmt.Fprintf(&rules, "  - record: query:%d_%s\n    expr: %q\n", p.ID, target.RefID, expr)
			found := metric.FindAllString(expr, -1)
			if len(found) == 0 {
				t.Errorf("%s: %q asks for no metric of Lockstep", p.Title, expr)
			}
			for _, name := range found {
				if !strings.Contains(known, "`"+strings.TrimSuffix(name, "_bucket")+"`") && !strings.Contains(known, "record: "+name+"\n") {
					t.Errorf("%s: there is no metric %s", p.Title, name)
				}
			}
		}
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, promtool, "check", "rules", file)
}
