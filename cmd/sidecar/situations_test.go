package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/table"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// TestSituationTables prints the table of every broken situation, from the /status that
// test/e2e.TestSituations recorded when it caused the situation on real parts, and compares
// it with the text that was read and found good. `go test -rewrite` writes the texts. Whether
// /status still shows this, `make soak` finds out, which causes all of them.
func TestSituationTables(t *testing.T) {
	captures, err := filepath.Glob("testdata/situations/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	situations := map[string]bool{}
	for _, path := range captures {
		situations[filepath.Dir(path)] = true
		base := strings.TrimSuffix(path, ".json")
		t.Run(strings.TrimPrefix(base, "testdata/situations/"), func(t *testing.T) {
			got := capturedTable(t, base)
			if *rewrite {
				mustWrite(t, base+".txt", got)
			}
			want, err := os.ReadFile(base + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if len(situations) < 24 {
		t.Errorf("got %d situations; go test ./test/e2e -run TestSituations -situations -rewrite writes them", len(situations))
	}
}

// capturedTable is the table at the time at which /status was read.
func capturedTable(t *testing.T, base string) string {
	t.Helper()
	return tableOf(t, base, terminal.Screen{})
}

func tableOf(t *testing.T, base string, on terminal.Screen) string {
	t.Helper()
	raw, err := os.ReadFile(base + ".json")
	if err != nil {
		t.Fatal(err)
	}
	a, err := reach.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	at, err := os.ReadFile(base + ".now")
	if err != nil {
		t.Fatal(err)
	}
	now, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(at)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	table.Status{Printer: terminal.Printer{W: &out, Screen: on}, Now: now}.Write(a.Report)
	return out.String()
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSituationsAreTold requires that a table says what is wrong, since when, and what to
// type. -rewrite does not change these requirements.
func TestSituationsAreTold(t *testing.T) {
	for path, texts := range map[string][]string{
		"user-without-rights/cp-1":   {`refuses user "weak"`, "withdrawn for ", "give that user the rights: sidecar bundle rights /etc/lockstep/bundle --all | kubectl apply -f -; "},
		"user-without-rights/cp-2":   {`refuses user "weak"`},
		"node-gone/cp-1":             {"no, for at least ", "cp-9 is not alive: upgrade it, unless it is restarting"},
		"node-gone/cp-2":             {"cp-9", "BLOCKS", "upgrade it (it is not alive)"},
		"etcd-hangs/cp-2":            {"NOT CONNECTED for ", "check whether etcd there hangs", "as of "},
		"apiserver-hangs/cp-1":       {"withdrawn for ", "no answer in 5s", "no node leads"},
		"foreign-store/cp-2":         {"STEP     HoldForStore", "sidecar store adopt --id ", " --etcd-prefix=/locksteq/"},
		"mark-damaged/cp-1":          {"withdrawn for ", "write the mark: configmaps", "kube-system is frozen", "exclude the ConfigMap lockstep in kube-system from that policy"},
		"etcd-full/cp-2":             {"NOT READY NotRegistered", "ALARM NOSPACE", "do not start the next upgrade: the database of etcd is full", "; etcdctl --endpoints=", " alarm disarm"},
		"duplicate-node-id/cp-1":     {"another sidecar with the same node ID ran on this machine", "give each sidecar its own --node-id"},
		"duplicate-node-id/cp-2":     {"another sidecar with the same node ID ran on this machine", "WARNINGS"},
		"deadlock/cp-1":              {"do not upgrade it now", "roll cp-1 back to 1.0.0"},
		"apiserver-not-ready/cp-2":   {"NOT IN SERVICE for ", "its kube-apiserver is not ready: ", "its gate is ready for ", "APIServerNotReady for "},
		"apiserver-not-ready/cp-1":   {"APIServerNotReady for ", "cp-2: its kube-apiserver is not ready: "},
		"service-crashes/cp-2":       {"apiserver  BackOff", "apiserver  it ended: exit status 2", "| unknown flag: --etcd-server"},
		"removals-held/cp-1":         {"12 not pruned", "--allow-mass-prune", "removals are held"},
		"versions-differ/cp-1":       {"v1.36.3 on cp-3; v1.36.3+1.1.0 on cp-1, cp-2", "cp-3: nodes of one release have different kube-apiservers", "cp-2: nodes of one release have different services"},
		"versions-differ/cp-3":       {"APISERVER", "SERVICES", "give all these nodes the same files in --services"},
		"clock-ahead/cp-1":           {"its clock is about 1h0m ahead of ", "a cordon had no effect", "by its own clock"},
		"clock-ahead/cp-2":           {"its clock is about 1h0m ahead of ", "correct the wrong one"},
		"override-left-on/cp-3":      {"cp-1  ", "AN OPERATOR HAS OVERRIDDEN THE GATE until ", "type there: sidecar override end --override-file="},
		"cordons-left-on/cp-2":       {"no node leads", "no node serves: no gate with a ready kube-apiserver is open", "sidecar uncordon cp-3 --etcd-servers=http", "by root@machine-1"},
		"service-file-rejected/cp-1": {"20-lb.yaml:6: unknown field \"readines\"; known are ", "do not start the next upgrade: cp-3: its services directory was rejected"},
		"other-bundle/cp-1":          {"cp-2: it runs another bundle than that of the objects", "sidecar bundle replace --from platform --to base --etcd-servers=http"},
		"other-bundle/cp-2":          {"PROBLEM  OTHER BUNDLE: ", "STEP     HoldForBundle: ", "sidecar bundle replace --from platform --to base --etcd-servers=http"},
		"rolling-back/cp-2":          {"ROLLBACK  to 1.0.0 by root@machine-1 for ", "stop one node, and start it with 1.0.0", "a rollback is under way (see ROLLBACK)"},
		"member-disk-stalls/a":       {"the disk of its etcd member is slow", "limit 100ms", "find out what else uses that disk"},
		"member-stalls/b":            {"does not answer: the process was stopped, or its disk or the machine hangs", "does not serve (see WARNINGS)"},
		"member-removed/b":           {"its etcd member was removed at ", " by root@machine-1; ", "sidecar node remove c --confirm-stopped ", "sidecar cluster token create --node c "},
		"ephemeral-cut-off/cp-1":     {"no, for ", "deleted in "},
		"ephemeral-cut-off/cp-4":     {"NOT READY Fenced for ", "leaders ignore its record after 13s"},
		"removals-held/cp-2":         {"12 objects that the bundle dropped are not removed", "--allow-mass-prune"},
	} {
		got := capturedTable(t, "testdata/situations/"+path)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("%s does not say %q:\n%s", path, text, got)
			}
		}
	}
}
