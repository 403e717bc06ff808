package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// get asks the handler and returns its answer.
func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
	return w
}

func wantAnswer(t *testing.T, w *httptest.ResponseRecorder, code int, body string) {
	t.Helper()
	if w.Code != code || w.Body.String() != body {
		t.Errorf("got %d %q, want %d %q", w.Code, w.Body, code, body)
	}
}

// everyCombination calls f with every reason, verdict and set of facts that the
// checks look at, consistent ones and others.
func everyCombination(f func(Snapshot)) {
	reasons := append(protocol.Reasons(), "")
	for _, reason := range reasons {
		for bits := range 1 << 4 {
			f(Snapshot{
				Gate:         Gate{Verdict: protocol.Verdict{Ready: bits&1 != 0, Reason: reason, Message: "m"}},
				Etcd:         Etcd{Reached: bits&2 != 0},
				Registration: protocol.Registration{Matches: bits&4 != 0, Controller: bits&8 != 0},
			})
		}
	}
}

func TestChecks(t *testing.T) {
	t.Run("all pass exactly when the verdict is ready, whatever is excluded", func(t *testing.T) {
		excludes := [][]string{nil, {checkEtcd}, {checkShutdown, checkEtcd, checkRegistered, checkCompatible, checkAPIServer}}
		everyCombination(func(s Snapshot) {
			for _, exclude := range excludes {
				if _, ok := renderChecks(checks(s), exclude); ok != s.Gate.Verdict.Ready {
					t.Errorf("%+v without %v: got %t, want %t", s.Gate.Verdict, exclude, ok, s.Gate.Verdict.Ready)
				}
			}
		})
	})
	t.Run("the apiserver can only close the gate", func(t *testing.T) {
		everyCombination(func(s Snapshot) {
			for _, ready := range []bool{true, false} {
				s.APIServer = APIServer{Enabled: true, Ready: ready}
				if _, ok := renderChecks(checks(s), nil); ok != (s.Gate.Verdict.Ready && ready) {
					t.Errorf("%+v, apiserver %t: got %t", s.Gate.Verdict, ready, ok)
				}
				if _, ok := renderChecks(checks(s), []string{checkAPIServer}); ok != s.Gate.Verdict.Ready {
					t.Errorf("%+v, apiserver excluded: got %t", s.Gate.Verdict, ok)
				}
			}
		})
	})
	t.Run("the member of this node only adds a note", func(t *testing.T) {
		everyCombination(func(s Snapshot) {
			s.Cluster = Cluster{Embedded: true, Cluster: report.Cluster{State: "Running"}, MemberProblem: "no space left on device"}
			body, ok := renderChecks(checks(s), nil)
			if ok != s.Gate.Verdict.Ready || !strings.Contains(body, "[+]etcd-member ok, but the etcd member of this node cannot be used: no space left on device\n") {
				t.Errorf("%+v: got %t\n%s", s.Gate.Verdict, ok, body)
			}
		})
		starting := memberCheck(Cluster{Embedded: true, Cluster: report.Cluster{Error: "ready: no majority"}})
		if want := "the etcd member of this node is not in use yet: ready: no majority"; !starting.OK || starting.Note != want {
			t.Errorf("got %+v", starting)
		}
	})
	t.Run("each reason fails the checks that it is about", func(t *testing.T) {
		want := map[string]string{
			"zero": "etcd registered compatible", "ready": "", "starting": "etcd registered compatible",
			"services not ready": "compatible", "not controller": "registered compatible", "not registered": "registered compatible",
			"registered but the status not read since": "registered compatible",
			"status missing": "compatible", "status corrupt": "compatible",
			"release too old": "compatible", "reconciler too old": "compatible",
			"duplicate node ID": "registered compatible", "fenced": "registered compatible",
			"shutting down": "shutdown", "shutting down before etcd was reached": "shutdown etcd registered",
			"ready on what was last known": "",
		}
		for _, st := range states(t) {
			var failed []string
			for _, c := range checks(st.snap) {
				if !c.OK {
					failed = append(failed, c.Name)
				}
			}
			if got := strings.Join(failed, " "); got != want[st.name] {
				t.Errorf("%s: got %q, want %q", st.name, got, want[st.name])
			}
		}
	})
}

func TestReadyz(t *testing.T) {
	tooOld := "ReleaseTooOld: release 1.1.0 is below 1.2.0, the minimum that the objects need; upgrade this node, or roll all nodes back to 1.1.0"
	tooOldChecks := "[+]shutdown ok\n[+]etcd ok\n[+]registered ok\n[-]compatible failed: " + tooOld + "\n"
	passing := "[+]shutdown ok\n[+]etcd ok\n[+]registered ok\n[+]compatible ok\n"
	starting := "Starting: etcd has not been reached yet"
	tests := []struct {
		name, state, target string
		code                int
		body                string
	}{
		{"ready is plainly ok", "ready", "/readyz", 200, "ok"},
		{"ready, with all checks", "ready", "/readyz?verbose", 200, passing + "readyz check passed\n"},
		{"verbose=0 is not verbose", "ready", "/readyz?verbose=0", 200, "ok"},
		{"ready on what was last known is ready", "ready on what was last known", "/readyz", 200, "ok"},
		{"too old is shown with its reason", "release too old", "/readyz", 503, tooOldChecks + "readyz check failed\n"},
		{"compatible is never excluded", "release too old", "/readyz?exclude=compatible", 503, tooOldChecks +
			"warn: some health checks cannot be excluded: the gate needs \"compatible\"\nreadyz check failed\n"},
		{
			"nor registered, nor shutdown; etcd is", "starting", "/readyz?exclude=registered&exclude=etcd&exclude=shutdown&exclude=nope&exclude=nope", 503,
			"[+]shutdown ok\n[+]etcd excluded: ok\n[-]registered failed: " + starting + "\n[-]compatible failed: " + starting + "\n" +
				"warn: some health checks cannot be excluded: the gate needs \"registered\", \"shutdown\"\n" +
				"warn: some health checks cannot be excluded: no matches for \"nope\"\nreadyz check failed\n",
		},
		{"shutting down cannot be excluded", "shutting down", "/readyz?exclude=shutdown", 503, "[-]shutdown failed: ShuttingDown: the sidecar is shutting down\n" +
			"[+]etcd ok\n[+]registered ok\n[+]compatible ok\n" +
			"warn: some health checks cannot be excluded: the gate needs \"shutdown\"\nreadyz check failed\n"},
		{"an unknown name changes nothing", "ready", "/readyz?verbose&exclude=nope", 200, passing +
			"warn: some health checks cannot be excluded: no matches for \"nope\"\nreadyz check passed\n"},
		{"one check that passes", "release too old", "/readyz/etcd", 200, "ok"},
		{"one check that fails", "release too old", "/readyz/compatible", 503, "service unavailable: " + tooOld + "\n"},
	}
	byName := map[string]Snapshot{}
	for _, st := range states(t) {
		byName[st.name] = st.snap
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, byName[test.state])
			wantAnswer(t, get(t, f.Handler(), test.target), test.code, test.body)
		})
	}
	t.Run("it follows the snapshot", func(t *testing.T) {
		f := newFixture(t, byName["ready"])
		f.snapshot.Set(byName["shutting down"])
		if got := get(t, f.Handler(), "/readyz").Code; got != http.StatusServiceUnavailable {
			t.Errorf("got %d, want 503", got)
		}
	})
}

func TestReadyzAPIServer(t *testing.T) {
	snap := states(t)[1].snap
	snap.APIServer = APIServer{Enabled: true, Message: "connection refused"}
	f := newFixture(t, snap)
	line := "this node's kube-apiserver is not ready: connection refused\n"
	wantAnswer(t, get(t, f.Handler(), "/readyz/apiserver"), 503, "service unavailable: "+line)
	wantAnswer(t, get(t, f.Handler(), "/readyz?exclude=apiserver"), 200, "ok")
	if w := get(t, f.Handler(), "/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "[-]apiserver failed: "+line) {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
	snap.APIServer = APIServer{}
	f.snapshot.Set(snap)
	if got := get(t, f.Handler(), "/readyz/apiserver").Code; got != http.StatusNotFound {
		t.Errorf("without --apiserver-readyz: got %d, want 404", got)
	}
}

func TestReadyzIsBounded(t *testing.T) {
	long := Snapshot{
		Gate:      Gate{Verdict: protocol.Verdict{Reason: protocol.Starting, Message: strings.Repeat("ä\n\x1b[2J", 5000)}},
		APIServer: APIServer{Enabled: true, Message: strings.Repeat("x", 20000)},
	}
	f := newFixture(t, long)
	var query []string
	for i := range 500 {
		query = append(query, fmt.Sprintf("exclude=%d%s", i, strings.Repeat("y", 100)))
	}
	w := get(t, f.Handler(), "/readyz?"+strings.Join(query, "&"))
	body := w.Body.String()
	if len(body) >= 10<<10 {
		t.Errorf("got %d bytes, want less than 10 KiB", len(body))
	}
	if strings.ContainsRune(body, '\x1b') || !strings.HasSuffix(body, "\nreadyz check failed\n") {
		t.Errorf("got %q", body)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		if !slices.ContainsFunc([]string{"[+]", "[-]", "warn: ", "readyz "}, func(p string) bool { return strings.HasPrefix(line, p) }) {
			t.Errorf("a line of its own: %q", line)
		}
	}
}

func TestLivez(t *testing.T) {
	for _, st := range states(t) {
		f := newFixture(t, st.snap)
		wantAnswer(t, get(t, f.Handler(), "/livez"), 200, "ok")
		wantAnswer(t, get(t, f.Handler(), "/healthz"), 200, "ok")
		wantAnswer(t, get(t, f.Handler(), "/livez?verbose"), 200, "[+]ping ok\nlivez check passed\n")
		wantAnswer(t, get(t, f.Handler(), "/healthz?verbose"), 200, "[+]ping ok\nhealthz check passed\n")
	}
}

// A loop without progress fails /livez, and nothing else: a restart is the remedy.
func TestLivez_stuck(t *testing.T) {
	var stuck []string
	f := newFixture(t, states(t)[1].snap, func(c *Config) { c.Stuck = func() []string { return stuck } })
	c := loadContract(t)
	for _, stuck = range [][]string{nil, {"gate failed: no progress for 30s", "snapshot failed: no progress for 30s"}} {
		for _, target := range []string{"/livez", "/livez?verbose", "/healthz"} {
			w := httptest.NewRecorder()
			f.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
			c.wantKept(t, target, w.Result(), w.Body.Bytes())
			want := "[+]ping ok\n[-]gate failed: no progress for 30s\n[-]snapshot failed: no progress for 30s\n" + target[1:min(len(target), len("/healthz"))] + " check failed\n"
			if failed := w.Code == http.StatusServiceUnavailable; failed != (stuck != nil) || failed && target != "/livez?verbose" && w.Body.String() != want {
				t.Errorf("%s, stuck %q: got %d %s", target, stuck, w.Code, w.Body)
			}
		}
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK {
			t.Errorf("stuck %q: /readyz: got %d", stuck, w.Code)
		}
	}
}

func TestLeader(t *testing.T) {
	for _, election := range []protocol.ElectionState{"", protocol.Ineligible, protocol.Campaigning, protocol.Leading, protocol.Withdrawn} {
		f := newFixture(t, Snapshot{Local: protocol.Local{ID: "cp-1"}, Election: Election{State: election, Leader: "cp-2", Epoch: 5}})
		code := http.StatusServiceUnavailable
		if election == protocol.Leading {
			code = http.StatusOK
		}
		wantAnswer(t, get(t, f.Handler(), "/leader"), code,
			fmt.Sprintf("{\n  \"leading\": %t,\n  \"node\": \"cp-1\",\n  \"leader\": \"cp-2\",\n  \"epoch\": 5\n}\n", election == protocol.Leading))
	}
}
