package attack

import (
	"context"
	"flag"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

var duration = flag.Duration("attack.duration", 800*time.Millisecond, "how long each attack lasts")

const (
	maxCPU = 0.10 // of a processor, for all strangers together
	// burst is the CPU time, in seconds, saved up for them, which they may use besides at the beginning.
	burst = 0.3
	// addresses of strangers; more than a filter can hold, and than a sidecar remembers.
	addresses = 5000
	// attempts is how often an attack begins that does nothing.
	attempts = 10
)

// victim is a sidecar with an etcd of its own.
type victim struct {
	Target
	log string
	Observation
	api *reviewer // nil: none
}

// unused is a kubeconfig that names a kube-apiserver that does not run: the gate stays closed, and its check is answered.
const unused = `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}]}`

func start(t *testing.T, strangers Target, address string, flags ...string) *victim {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	v := &victim{Target: strangers, log: log}
	v.HTTP, v.Join, v.Etcd = address+":8086", address+":8090", []string{address + ":8088", address + ":8089"}
	cmd := exec.Command(filepath.Join(os.Getenv("LOCKSTEP_E2E_ASSETS"), "sidecar"), append([]string{ //nolint:noctx // Cleanup ends it
		"run", "--node-id=a", "--etcd=embedded", "--data-dir=" + filepath.Join(dir, "data"), "--node-address=" + address, "--join-port=8090",
		"--listen=" + v.HTTP, "--bundle=builtin", "--shutdown-delay=0s",
	}, flags...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LOCKSTEP_") }), "GOGC=100") // it is measured
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.PID = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the sidecar:\n%s", v.text(t))
		}
	})
	return v
}

func (v *victim) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(v.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// await waits until both ports answer.
func (v *victim) await(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, port := range []string{v.HTTP, v.Join} {
		for {
			conn, err := dial(ctx, nil, port)
			if err == nil {
				_ = conn.Close()
				break
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s does not listen: %v", port, err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// TestAttack: in each attack, all strangers together cost a tenth of a processor at most, health
// probes of others are answered, and no session is lost.
func TestAttack(t *testing.T) {
	if os.Getenv("LOCKSTEP_E2E_ASSETS") == "" {
		t.Skip("SKIPPED, NOT TESTED: needs the programs of `make test` (LOCKSTEP_E2E_ASSETS)")
	}
	if !netns.Enter(t) {
		return
	}
	balancers := []net.IP{}
	own := []string{"10.90.0.1", "10.90.0.2"}
	for i := range 8 {
		balancers = append(balancers, net.IPv4(10, 90, 1, byte(1+i)))
		own = append(own, balancers[i].String())
	}
	if err := Prepare(own...); err != nil {
		t.Fatal(err)
	}
	strangers, err := NewTarget(addresses)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(unused), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := start(t, strangers, own[0], "--insecure-listen", "--kubeconfig="+config)
	plain.Observation = Observation{PID: plain.PID, URL: "http://" + plain.HTTP, Gate: http.StatusServiceUnavailable, Probes: balancers}
	cert, key, err := ServerFiles(t.TempDir(), own[1])
	if err != nil {
		t.Fatal(err)
	}
	api := startReviewer(t, balancers[0])
	secured := start(t, strangers, own[1], "--tls-cert-file="+cert, "--tls-private-key-file="+key, "--client-ca-file="+cert,
		"--kubeconfig="+api.kubeconfig, "--authentication-kubeconfig="+api.kubeconfig, "--authorization-kubeconfig="+api.kubeconfig)
	secured.TLS = true
	secured.Observation = Observation{PID: secured.PID, URL: "https://" + secured.HTTP, Gate: http.StatusOK, Probes: balancers}
	secured.api, secured.Reviews = api, true
	plain.await(t.Context(), t)
	secured.await(t.Context(), t)
	for _, v := range []*victim{plain, secured} {
		v.api.await(t, v)
		cluster.Await(t, "the gate", v.Ask)
		if err := v.Greet(t.Context()); err != nil {
			t.Fatal(err)
		}
		quiet, err := v.During(t.Context(), func() int { <-time.After(*duration); return 0 })
		if err != nil || len(quiet.Failed) > 0 {
			t.Fatalf("without an attack: %v, %v", err, quiet.Failed)
		}
		t.Logf("%s, no attack: %.1f %% of a processor, p99 %s", v.URL, 100*quiet.CPU, quiet.P99)
		began, spent := time.Now(), 0.0
		for _, a := range All() {
			if a.Fits(v.Target) {
				t.Run(a.Name, func(t *testing.T) { spent += v.attack(t, a, quiet) })
			}
		}
		if v.api != nil {
			t.Run("reviews", func(t *testing.T) { v.api.attacked(t, v) })
		}
		// What is saved up counts once: after it is used, an attack of a second has a tenth of one.
		if most := maxCPU*time.Since(began).Seconds() + burst; spent > most {
			t.Errorf("all strangers one after another used %.2f s of a processor, want %.2f s at most", spent, most)
		}
		if text := v.text(t); strings.Contains(text, "session lost") || strings.Contains(text, "panic") {
			t.Error("a session was lost, or a handler panicked")
		}
	}
}

// attack attacks for a while, and returns how many seconds of a processor that took.
func (v *victim) attack(t *testing.T, a Attack, quiet Cost) float64 {
	t.Helper()
	var got Cost
	var lasts time.Duration
	for try := 1; try <= attempts && got.Times == 0; try++ { // in a second on a busy machine, it may not come to it
		lasts = *duration * time.Duration(try)
		if try > 1 { // so many begin at one moment there that none of them gets enough of the common share
			a.workers = max(1, a.workers/2)
		}
		v.api.during(t, ofAll, func() int {
			ctx, cancel := context.WithTimeout(t.Context(), lasts)
			defer cancel()
			var err error
			if got, err = v.During(t.Context(), func() int { return a.Run(ctx, v.Target) }); err != nil {
				t.Fatal(err)
			}
			return got.Times
		})
	}
	t.Logf("%d times (%.0f/s): %.1f %% of a processor more, %d probes, p99 %s, %d failed", got.Times, float64(got.Times)/lasts.Seconds(),
		100*(got.CPU-quiet.CPU), got.Probes, got.P99, len(got.Failed))
	spent := got.CPU - quiet.CPU
	if spent > maxCPU+burst/lasts.Seconds() {
		t.Errorf("strangers use %.1f %% of a processor, want %.0f %% at most", 100*spent, 100*maxCPU)
	}
	if got.Times == 0 || got.Probes == 0 || len(got.Failed) > 0 {
		t.Errorf("%d times; %d probes: %v", got.Times, got.Probes, got.Failed)
	}
	return spent * lasts.Seconds()
}
