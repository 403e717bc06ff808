package turns_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/jail"
)

const (
	// apiWord is the first argument of the program that answers as a kube-apiserver, at an address.
	apiWord    = "api"
	apiAddress = "127.0.0.1:6443"
	// Files of the machine: what systemd runs when it stops the unit, and one with which the unit does not start.
	atStop  = "/run/at-stop"
	noStart = "/run/broken"
)

// serveAPI answers at an address as far as a sidecar asks whether its kube-apiserver is ready.
func serveAPI(address string) error {
	return http.ListenAndServe(address, &api{}) //nolint:gosec // only the test asks
}

// apiUnit is a kube-apiserver as a unit.
func apiUnit(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[Service]\nExecStartPre=test ! -e %s\nExecStart=%s %s %s\nExecStop=%s\n", noStart, self, apiWord, apiAddress, atStop)
}

// The first example of the command's help, with a real systemd: the gate is closed when systemd stops the unit, and open when
// the command returns. A unit that does not start keeps the turn, with the reason: the line stops there, and all others serve.
// When the unit is repaired, the same line goes on.
func TestTurns_systemd(t *testing.T) {
	program := filepath.Join(cluster.Assets(t, "sidecar"), "sidecar") // at the same path on the machine
	if !jail.Enter(t, jail.Config{Units: map[string]string{"kube-apiserver.service": apiUnit(t)}, Files: map[string]string{program: program}}) {
		return
	}
	systemctl := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "systemctl", args...).CombinedOutput(); err != nil {
			t.Fatalf("systemctl %q: %v: %s", args, err, out)
		}
	}
	w := newWorld(t, func(n *node) {
		if n.id != "cp-1" {
			return
		}
		text, err := os.ReadFile(n.cfg.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte(n.api.URL), []byte("http://"+apiAddress))
		if err := os.WriteFile(n.cfg.Kubeconfig, text, 0o600); err != nil {
			t.Fatal(err)
		}
		systemctl("start", "kube-apiserver")
	})
	first, second := w.nodes[0], w.nodes[1]
	w.writeAtStop(first)
	restart := func(more ...string) *typed {
		return w.turn(first, append(append([]string{"--drain=1ms"}, more...), "--", "systemctl", "restart", "kube-apiserver")...)
	}
	w.want(restart(), 0, "")
	if err := first.sidecar.Readyz(t.Context()); err != nil {
		t.Error(err)
	}
	w.wantInTurn(w.log(), 1)

	if err := os.WriteFile(noStart, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const how = "it ended with exit code 1"
	w.want(restart(), 1, "node cp-1 keeps the turn")
	w.awaitPrinted([]string{"turn", "status"}, "cp-1 has the turn", "ITS WORK HAS FAILED: "+how)
	w.want(w.work(second, w.job(second), "--wait=1s"), 7, "systemctl restart kube-apiserver; its work has failed")
	for _, n := range w.nodes[1:] {
		if err := n.sidecar.Readyz(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := first.sidecar.Readyz(t.Context()); err == nil {
		t.Error("cp-1 serves, and its unit has failed")
	}
	if err := os.Remove(noStart); err != nil {
		t.Fatal(err)
	}
	w.want(restart(), 0, "continues its turn")
	w.want(w.work(second, w.job(second)), 0, "")
}

// writeAtStop writes the program that systemd runs when it stops the unit: it logs which nodes serve.
func (w *world) writeAtStop(n *node) {
	w.Helper()
	text, err := json.Marshal(w.job(n))
	if err != nil {
		w.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s '%s'\n", self, workWord, text)
	if err := os.WriteFile(atStop, []byte(script), 0o700); err != nil { //nolint:gosec // systemd executes it
		w.Fatal(err)
	}
}
