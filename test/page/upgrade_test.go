package page_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/page"
	"github.com/lockstep-dev/lockstep/trace"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures of the docs")

const (
	bundles = "../e2e/upgrade/bundles" // by release
	images  = "../../docs/images"
)

// desk is the screen of the docs' pictures.
var desk = page.View{Width: 1000, Height: 556}

// fleet are the sidecars of a control plane, by node.
type fleet struct {
	*testing.T
	c        *cluster.Cluster
	api      *cluster.APIServer
	sidecars map[string]*cluster.Sidecar
}

// upgrade stops the node's sidecar, and starts one of a release at the same address.
func (f *fleet) upgrade(node, release string) {
	f.Helper()
	none := time.Duration(0)
	cfg := cluster.SidecarConfig{
		NodeID: node, Bundle: filepath.Join(bundles, release), Kubeconfig: f.api.Kubeconfig(), LeaseTTL: 3 * time.Second, ShutdownDelay: &none,
	}
	if old := f.sidecars[node]; old != nil {
		cfg.Listen = old.Listen()
		if err := old.Stop(); err != nil {
			f.Fatal(err)
		}
	}
	s, err := f.c.StartSidecar(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.sidecars[node] = s
}

// sight is the part of an upgrade that a person sees.
type sight struct {
	Link     string // live, or why not
	Bar      string // its color
	Text     string // of the bar
	Upgrade  string
	Progress string // its color; none: it is not shown
	Title    string
	Releases string // of the nodes
}

const look = `({
	link: document.getElementById("link").textContent, bar: document.getElementById("sum").className, text: document.getElementById("sum").textContent,
	upgrade: document.getElementById("upgrade-text").textContent, title: document.title,
	progress: document.getElementById("progress").hidden ? "none" : document.getElementById("progress").className || "good",
	releases: [...document.querySelectorAll("#fleet tbody tr")].map((x) => x.cells[1].textContent).join(" "),
})`

// awaitSight waits until the page shows want; an empty field of want is anything.
func awaitSight(t *testing.T, b *page.Browser, what string, want sight) {
	t.Helper()
	cluster.Await(t, "the page to show "+what, func(ctx context.Context) error {
		var got sight
		if err := b.Eval(ctx, look, &got); err != nil {
			return err
		}
		for _, pair := range [][2]string{
			{got.Link, want.Link}, {got.Bar, want.Bar}, {got.Text, want.Text}, {got.Upgrade, want.Upgrade},
			{got.Progress, want.Progress}, {got.Title, want.Title}, {got.Releases, want.Releases},
		} {
			if pair[0] != cmp.Or(pair[1], pair[0]) {
				return fmt.Errorf("got %+v", got)
			}
		}
		return nil
	})
}

// TestUpgrade watches the page of a node while all nodes are upgraded, this one too: it
// shows each step by itself, and follows the next sidecar at its address. One node is killed in the middle; the
// recordings of all can be replayed.
func TestUpgrade(t *testing.T) {
	if _, err := page.Find(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v; Debian and Ubuntu have it: apt-get install chromium", err)
	}
	c := cluster.NewForTest(t)
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{T: t, c: c, api: api, sidecars: map[string]*cluster.Sidecar{}}
	nodes := []string{"cp-1", "cp-2", "cp-3"}
	for _, node := range nodes {
		f.upgrade(node, "1.0.0")
	}
	for _, node := range nodes {
		cluster.Await(t, node+" to be ready", f.sidecars[node].Readyz)
	}
	b := startBrowser(t)
	if err := b.Resize(t.Context(), desk); err != nil {
		t.Fatal(err)
	}
	if err := b.Open(t.Context(), f.sidecars["cp-3"].URL()+"/"); err != nil {
		t.Fatal(err)
	}
	const fine = "✔ Nothing needs an action. The next upgrade may start."
	awaitSight(t, b, "that nothing is wrong", sight{
		Link: "live", Bar: "good", Text: fine, Progress: "none", Title: "● cp-3 – Lockstep", Releases: "1.0.0 1.0.0 1.0.0",
		Upgrade: "3 of 3 controllers at release 1.0.0, 3 of them ready. The next upgrade may start.",
	})
	wantLayout(t, b, "before the upgrade")

	f.upgrade("cp-1", "1.1.0")
	awaitSight(t, b, "the first node", sight{
		Link: "live", Releases: "1.1.0 1.0.0 1.0.0",
		Upgrade: "1 of 3 controllers at release 1.1.0, 1 of them ready. Until this upgrade is complete, do not start the next one:",
	})
	everyView(t, b, "during the upgrade")
	writeImage(t, b, "page-upgrade.png")

	if err := f.sidecars["cp-2"].Kill(); err != nil {
		t.Fatal(err)
	}
	awaitSight(t, b, "a node that has ended", sight{Link: "live", Bar: "bad", Progress: "wait", Title: "▲ cp-3 – Lockstep"})
	everyView(t, b, "with a node that has ended")
	f.upgrade("cp-2", "1.1.0")
	awaitSight(t, b, "the second node", sight{Link: "live", Releases: "1.1.0 1.1.0 1.0.0"})

	if err := f.sidecars["cp-3"].Stop(); err != nil {
		t.Fatal(err)
	}
	awaitSight(t, b, "that its sidecar has ended", sight{Link: "this sidecar does not respond; what is shown is old"})
	f.upgrade("cp-3", "1.1.0")
	awaitSight(t, b, "that nothing is wrong again", sight{
		Link: "live", Bar: "good", Text: fine, Progress: "none", Title: "● cp-3 – Lockstep", Releases: "1.1.0 1.1.0 1.1.0",
	})
	wantLayout(t, b, "after the upgrade")
	cluster.Await(t, "the lanes to show all of it", func(ctx context.Context) error {
		var got drawn
		if err := b.Eval(ctx, picture, &got); err != nil {
			return err
		}
		if got.Out == 0 || got.Planned == 0 || got.Leads == 0 || got.Brackets != 1 || got.Rows < 10 {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
	showsTurns(f, b)
	for _, node := range nodes {
		f.replayed(node)
	}
}

// replayed requires that sidecar replay allows each step in the recording of a node, also of an upgrade in which another
// one was killed, and that it names the one that is forged.
func (f *fleet) replayed(node string) {
	f.Helper()
	_, packed, err := f.sidecars[node].Get(f.Context(), "/debug/recording")
	if err != nil {
		f.Fatal(err)
	}
	recording, err := trace.ReadRecording(strings.NewReader(packed))
	if err != nil {
		f.Fatal(err)
	}
	if out, err := f.replay([]byte(packed)); err != nil || !strings.Contains(out, "each of which the protocol allows") {
		f.Errorf("%s: %v: %s", node, err, out)
	}
	last := -1
	for i, r := range recording {
		if r.Gate != nil {
			last = i
		}
	}
	if last < 2 {
		f.Fatalf("%s: the last verdict of its gate is event %d of %d", node, last, len(recording))
	}
	gate := *recording[last].Gate
	gate.Verdict.Ready = !gate.Verdict.Ready
	recording[last].Gate = &gate
	var forged bytes.Buffer
	write := trace.To(&forged, func(err error) { f.Fatal(err) })
	for _, r := range recording {
		write(r.Event)
	}
	if out, err := f.replay(forged.Bytes()); err == nil || !strings.Contains(out, fmt.Sprintf("event %d, at ", last)) || !strings.Contains(out, ": gate: not allowed: ") {
		f.Errorf("%s: the verdict of event %d is forged: %v: %s", node, last, err, out)
	}
}

// replay gives a recording to the command.
func (f *fleet) replay(recording []byte) (string, error) {
	f.Helper()
	file := filepath.Join(f.TempDir(), "recording")
	if err := os.WriteFile(file, recording, 0o600); err != nil {
		f.Fatal(err)
	}
	out, err := exec.CommandContext(f.Context(), f.c.SidecarBinary(), "replay", file).CombinedOutput()
	return string(out), err
}

// everyView looks at the live page on every screen, and goes back to the screen of the docs.
func everyView(t *testing.T, b *page.Browser, name string) {
	t.Helper()
	for _, v := range append(slices.Clone(views), desk) {
		if err := b.Resize(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		wantLayout(t, b, fmt.Sprintf("%s at %d", name, v.Width))
		takeShot(t, b, strings.ReplaceAll(name, " ", "-"), v)
	}
}

// writeImage writes a picture of the docs.
func writeImage(t *testing.T, b *page.Browser, name string) {
	t.Helper()
	if !*rewrite {
		return
	}
	png, err := b.Screenshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(images, name), png, 0o644); err != nil {
		t.Fatal(err)
	}
}
