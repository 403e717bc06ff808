package alerts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// times are the values of a series in each of the outMinutes before it is asked for: the first value, then others from a
// minute on.
type times []struct {
	from  int
	value string
}

const outMinutes = 480

// values is in the notation of promtool. Minutes count back from the time of the question.
func (s times) values() string {
	var out []string
	for i, part := range s {
		until := -5
		if i+1 < len(s) {
			until = s[i+1].from
		}
		for range part.from - until {
			out = append(out, part.value)
		}
	}
	return strings.Join(out, " ")
}

func constant(value string) times { return times{{outMinutes, value}} }

// scraped has the series of the three nodes of two control planes that serve all the time.
func scraped() world {
	w := world{}
	for _, store := range stores {
		for _, node := range nodes {
			set := func(name, labels, value string) { w[series(store, node, name, labels)] = constant(value).values() }
			set("lockstep_node_info", fmt.Sprintf(`,node="%s",store="%s"`, node, store), "1")
			set("lockstep_readyz", "", "1")
			set("lockstep_fleet_controllers", "", "3")
			set("lockstep_fleet_controllers_cordoned_off", "", "0")
			for _, reason := range []string{"Ready", "NotController", "Cordoned", "ShuttingDown"} {
				set("lockstep_status_gate_reason", label("reason", reason), fmt.Sprint(one(reason == "Ready")))
			}
		}
	}
	return w
}

// during sets a series of cp-2 of a control plane.
func during(store, name, labels string, values times) func(world) {
	return func(w world) { w[series(store, "cp-2", name, labels)] = values.values() }
}

// off ends every series of nodes of the first control plane for that time before the question, and for the rest of it if until is 0.
func off(from, until int, of ...string) func(world) {
	return func(w world) {
		for key, values := range w {
			for _, node := range of {
				if !strings.Contains(key, `instance="`+node+`-aaaa"`) {
					continue
				}
				all := strings.Fields(values)
				for i := range all {
					if at := outMinutes - i; at <= from && at > until || until == 0 && at <= 0 {
						all[i] = "stale"
					}
				}
				w[key] = strings.Join(all, " ")
			}
		}
	}
}

func cordoned(store string, begin, end int) func(world) {
	return together(
		during(store, "lockstep_readyz", "", times{{outMinutes, "1"}, {begin, "0"}, {end, "1"}}),
		during(store, "lockstep_status_gate_reason", `,reason="Cordoned"`, times{{outMinutes, "0"}, {begin, "1"}, {end, "0"}}),
	)
}

func notReady(store string, begin int) func(world) {
	return during(store, "lockstep_readyz", "", times{{outMinutes, "1"}, {begin, "0"}})
}

func controllers(now string) func(world) {
	return ofFleet("lockstep_fleet_controllers", times{{outMinutes, "3"}, {30, now}})
}

// ofFleet sets a series that every node of the first control plane has.
func ofFleet(name string, values times) func(world) {
	return func(w world) {
		for _, node := range nodes {
			w[series("aaaa", node, name, "")] = values.values()
		}
	}
}

// repaired is a machine that was cordoned and is off for seven hours, which the others know.
func repaired() func(world) {
	return together(cordoned("aaaa", 430, -5), off(420, 0, "cp-2"), cordonedOff())
}

func cordonedOff() func(world) {
	return ofFleet("lockstep_fleet_controllers_cordoned_off", times{{outMinutes, "0"}, {420, "1"}})
}

// never is a node of the first control plane that was never scraped.
func never(node string) func(world) {
	return func(w world) {
		for key := range w {
			if strings.Contains(key, `instance="`+node+`-aaaa"`) {
				delete(w, key)
			}
		}
	}
}

// stops ends a node of the first control plane in the way of a graceful stop.
func stops(node string, at int) func(world) {
	return together(func(w world) {
		w[series("aaaa", node, "lockstep_readyz", "")] = times{{outMinutes, "1"}, {at + 1, "0"}}.values()
		w[series("aaaa", node, "lockstep_status_gate_reason", `,reason="ShuttingDown"`)] = times{{outMinutes, "0"}, {at + 1, "1"}}.values()
	}, off(at, 0, node))
}

// outages has for each situation the minutes of the last hour that nodes of the first and of the second control plane were out of
// service, to ten minutes.
var outages = []struct {
	name                   string
	change                 func(world)
	planned, unplanned     int
	planned2nd, unplanned2 int
}{
	{name: "all serve", change: together()},
	{name: "cordoned", change: cordoned("aaaa", 30, -5), planned: 30},
	{name: "not ready", change: notReady("aaaa", 30), unplanned: 30},
	{name: "a gate closed by itself", change: together(notReady("aaaa", 30),
		during("aaaa", "lockstep_status_gate_reason", `,reason="Ready"`, times{{outMinutes, "1"}, {30, "0"}})), unplanned: 30},
	{name: "off", change: off(30, 0, "cp-2"), unplanned: 30},
	{name: "all off", change: off(30, 0, nodes...), unplanned: 90},
	{name: "cordoned, then off", change: together(cordoned("aaaa", 40, -5), off(30, 0, "cp-2")), planned: 40},
	{name: "stopped, off, and not ready at first", change: together(
		during("aaaa", "lockstep_status_gate_reason", `,reason="ShuttingDown"`, times{{outMinutes, "0"}, {31, "1"}, {30, "0"}}),
		during("aaaa", "lockstep_readyz", "", times{{outMinutes, "1"}, {31, "0"}, {21, "1"}}), off(30, 25, "cp-2")), planned: 10},
	{name: "killed, off, and not ready at first", change: together(
		during("aaaa", "lockstep_readyz", "", times{{outMinutes, "1"}, {30, "0"}, {20, "1"}}), off(30, 25, "cp-2")), unplanned: 10},
	{name: "not ready long after a cordon", change: together(cordoned("aaaa", 55, 45),
		during("aaaa", "lockstep_readyz", "", times{{outMinutes, "1"}, {55, "0"}, {45, "1"}, {20, "0"}})), planned: 10, unplanned: 20},
	{name: "cordoned, and off for seven hours", change: repaired(), planned: 60},
	{name: "cordoned, off for seven hours, and uncordoned", change: together(repaired(),
		ofFleet("lockstep_fleet_controllers_cordoned_off", times{{outMinutes, "0"}, {420, "1"}, {30, "0"}})), planned: 30, unplanned: 30},
	{name: "off for seven hours", change: off(420, 0, "cp-2"), unplanned: 60},
	{name: "cordoned, off for seven hours, and another one stops", change: together(repaired(), stops("cp-3", 20)), planned: 80},
	{name: "cordoned, off for seven hours, and another one dies", change: together(repaired(), off(20, 0, "cp-3")), planned: 60, unplanned: 20},
	{name: "cordoned, off and never scraped", change: together(never("cp-2"), cordonedOff()), planned: 60},
	{name: "off and removed", change: together(off(30, 0, "cp-2"), controllers("2"))},
	{name: "cordoned, off and removed", change: together(cordoned("aaaa", 50, -5), off(30, 0, "cp-2"), controllers("2")), planned: 20},
	{name: "another role", change: together(notReady("aaaa", 30), controllers("2"),
		during("aaaa", "lockstep_status_gate_reason", `,reason="NotController"`, times{{outMinutes, "0"}, {30, "1"}}))},
	{name: "two control planes", change: together(cordoned("aaaa", 30, -5), notReady("bbbb", 20)), planned: 30, unplanned2: 20},
	{name: "two jobs", change: together(cordoned("aaaa", 30, -5), notReady("bbbb", 20), again), planned: 30, unplanned2: 20},
}

// TestOutOfService: the records of the time out of service count what clients feel.
func TestOutOfService(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v; Debian and Ubuntu have it: apt-get install prometheus", err)
	}
	dir := t.TempDir()
	records, _, found := strings.Cut(read(t, rulesFile), "  - name: lockstep\n") // promtool needs a second for each situation with all alerts
	rules, file := filepath.Join(dir, "records.yaml"), filepath.Join(dir, "tests.yaml")
	if err := os.WriteFile(rules, []byte(records), 0o600); err != nil || !found {
		t.Fatal(found, err)
	}
	var tests strings.Builder
	fmt.Fprintf(&tests, "rule_files: [%s]\nevaluation_interval: 4m\ngroup_eval_order: [lockstep-recording]\ntests:\n", rules)
	for _, o := range outages {
		w := scraped()
		o.change(w)
		fmt.Fprintf(&tests, "  - name: %q\n    interval: 1m\n    input_series:\n%s    promql_expr_test:\n", o.name, w.yaml())
		for kind, expected := range map[string][]int{"planned": {o.planned, o.planned2nd}, "unplanned": {o.unplanned, o.unplanned2}} {
			// A share of the three nodes' hour, as minutes.
			fmt.Fprintf(&tests, "    - expr: round(sum by (store) (lockstep:out_of_service_%s:ratio_rate1h * max_over_time(lockstep:controllers:count[1h])) * 60, 10)\n", kind)
			fmt.Fprintf(&tests, "      eval_time: %dm\n      exp_samples: [{labels: '{store=\"aaaa\"}', value: %d}, {labels: '{store=\"bbbb\"}', value: %d}]\n", outMinutes, expected[0], expected[1])
		}
	}
	if err := os.WriteFile(file, []byte(tests.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, promtool, "test", "rules", file)
}
