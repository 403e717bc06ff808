package balancers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// typed returns the commands of a section of docs/operations.md, in
// order. The section ends with the next heading.
func typed(t *testing.T, heading string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	section, _, ended := strings.Cut(section, "\n### ")
	if !found || !ended {
		t.Fatalf("docs/operations.md has no %q", heading)
	}
	var out []string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		for _, prompt := range []string{"$ ", "# "} {
			if command, is := strings.CutPrefix(line, prompt); is {
				out = append(out, command)
			}
		}
	}
	return out
}

// TestBreakGlass types the commands of docs/operations.md: a node whose release is too old
// serves, with warnings everywhere, until that ends; also while etcd does not answer, and
// after a restart.
func TestBreakGlass(t *testing.T) {
	c, err := cluster.New(cluster.Config{Assets: cluster.Assets(t, "sidecar"), Dir: t.TempDir(), LogDir: t.ArtifactDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.CloseForTest(t, c) })
	addresses, _ := loopback(t, 2)
	b := &breakGlass{gates: newGates(t, c, addresses), file: filepath.Join(t.TempDir(), "override")}
	commands := typed(t, "### Serve in spite of a closed gate")
	if len(commands) != 3 {
		t.Fatalf("got the commands %q, want one that begins, one that ends, and one without the sidecar", commands)
	}
	b.write(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Minor: 1}}, MinCompatible: protocol.Release{Major: 9}})
	for _, n := range b.nodes {
		b.startSidecar(n, b.config(n))
	}
	first, second := b.nodes[0], b.nodes[1]
	b.awaitReadyz(first, http.StatusServiceUnavailable, "[-]compatible failed: ReleaseTooOld: ")

	b.typeCommand(commands[0])
	const warning = "AN OPERATOR HAS OVERRIDDEN THE GATE until "
	b.awaitReadyz(first, http.StatusOK, "ok, but "+warning)
	b.awaitShown(first, "/readyz?verbose", "[+]compatible ok, but "+warning, "this node serves although the gate is closed: ReleaseTooOld: ")
	b.awaitShown(first, "/status", `"reason": "Overridden"`, `"override": {`, `"upgradeReady": false`)
	b.awaitShown(first, "/metrics", `lockstep_status_gate_reason{reason="Overridden"} 1`, "lockstep_status_gate_ready 1")
	b.awaitShown(second, "/status", `"upgradeReady": false`, `"reason": "Overridden"`, warning)
	b.awaitReadyz(second, http.StatusServiceUnavailable, "ReleaseTooOld")
	b.awaitTable(first, "OVERRIDDEN for ", warning)
	b.awaitTable(second, "cp-1  0.1.0    Overridden", warning)
	if log, err := os.ReadFile(first.sidecar.LogFile()); err != nil || !strings.Contains(string(log), warning[:len(warning)-len(" until ")]) {
		t.Errorf("the log has no %q: %v", warning, err)
	}
	b.typeCommand(commands[1])
	b.awaitReadyz(first, http.StatusServiceUnavailable, "ReleaseTooOld")

	c.Etcd.Stop()
	b.typeCommand(commands[2])
	b.awaitReadyz(first, http.StatusOK, "ok, but "+warning)
	if err := first.sidecar.Kill(); err != nil {
		t.Fatal(err)
	}
	b.startSidecar(first, b.config(first))
	b.awaitReadyz(first, http.StatusOK, "Starting")
	if err := os.WriteFile(b.file, []byte("for ever\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.awaitReadyz(first, http.StatusServiceUnavailable, "Starting")
	b.awaitShown(first, "/status", `"reason": "OverrideRejected"`)
}

type breakGlass struct {
	*gates
	file string
}

// config configures a sidecar; only the first one uses the override file.
func (b *breakGlass) config(n *gate) cluster.SidecarConfig {
	file := b.file
	if n != b.nodes[0] {
		file += "-of-" + n.id
	}
	return cluster.SidecarConfig{Listen: n.address + ":" + sidecarPort, Args: []string{"--override-file=" + file}}
}

// typeCommand runs a command of the page, with the file of this test.
func (b *breakGlass) typeCommand(command string) {
	b.Helper()
	const file = "/etc/lockstep/override"
	cmd := exec.CommandContext(b.Context(), "sh", "-c", strings.ReplaceAll(command, file, b.file))
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(b.cluster.SidecarBinary())+":"+os.Getenv("PATH"), "LOCKSTEP_OVERRIDE_FILE="+b.file)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v: %s", command, err, out)
	}
}

func (b *breakGlass) awaitReadyz(n *gate, code int, part string) {
	b.Helper()
	poll(b.T, fmt.Sprintf("/readyz of %s to answer %d and %q", n.id, code, part), func() error {
		got, body, err := n.sidecar.Get(b.Context(), "/readyz")
		if err == nil && (got != code || !strings.Contains(body, part)) {
			err = fmt.Errorf("%d: %s", got, body)
		}
		return err
	})
}

func (b *breakGlass) awaitShown(n *gate, path string, parts ...string) {
	b.Helper()
	poll(b.T, fmt.Sprintf("%s of %s to show %q", path, n.id, parts), func() error {
		_, body, err := n.sidecar.Get(b.Context(), path)
		return errors.Join(err, containsAll(body, parts))
	})
}

func (b *breakGlass) awaitTable(n *gate, parts ...string) {
	b.Helper()
	cluster.Await(b.T, fmt.Sprintf("sidecar status of %s to show %q", n.id, parts), n.sidecar.OnChange(func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, b.cluster.SidecarBinary(), "status", "--server", n.sidecar.URL()).CombinedOutput()
		return errors.Join(err, containsAll(string(out), parts))
	}))
}

func containsAll(text string, parts []string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("want %q in %s", part, text)
		}
	}
	return nil
}
