package staticpod

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const manifest = "apiVersion: v1\nkind: Pod\n"

// kubelet is a fake: the pod listens some time after its manifest appears, and ends some time
// after it disappears. It reads the directory every second, as a kubelet does without
// inotify.
type kubelet struct {
	t     *testing.T
	dir   string
	stops time.Duration

	mu    sync.Mutex // mu guards the fields below
	pod   string     // the manifest of the pod that listens; empty: none
	story []string
}

const fileCheck = time.Second

func newKubelet(t *testing.T, dir string) *kubelet { return newSlowKubelet(t, dir, 3*time.Second) }

// newSlowKubelet returns a kubelet whose pods take that long to end.
func newSlowKubelet(t *testing.T, dir string, stops time.Duration) *kubelet {
	k := &kubelet{t: t, dir: dir, stops: stops}
	go k.run(t.Context())
	return k
}

func (k *kubelet) run(ctx context.Context) {
	tick := time.NewTicker(fileCheck)
	defer tick.Stop()
	for {
		now := k.read()
		k.mu.Lock()
		before := k.pod
		k.mu.Unlock()
		switch {
		case now == before:
		case before != "": // the old one ends before a new one starts
			<-time.After(k.stops)
			k.set("", "ended "+before)
		default:
			k.set(now, "started "+now)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (k *kubelet) set(pod, what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pod, k.story = pod, append(k.story, what)
}

// read returns the manifests that a kubelet would run: every file whose name does not begin with a dot.
func (k *kubelet) read() string {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		k.t.Error(err)
	}
	var pods []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "other") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(k.dir, e.Name()))
		if err != nil {
			k.t.Error(err)
		}
		body, is := strings.CutPrefix(string(text), mark+manifest)
		if !is {
			k.t.Errorf("%s is half written: %q", e.Name(), text)
		}
		pods = append(pods, strings.TrimSpace(body))
	}
	if len(pods) > 1 {
		k.t.Errorf("two pods: %v", pods)
	}
	return strings.Join(pods, " ")
}

func (k *kubelet) refused(context.Context) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pod == ""
}

func (k *kubelet) wantStory(want ...string) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.story, want) {
		k.t.Errorf("got %q, want %q", k.story, want)
	}
	k.story = nil
}

// service is a driver that runs.
type service struct {
	cancel context.CancelFunc
	runs   atomic.Int32
	ended  atomic.Pointer[driver.Exit]
}

func (k *kubelet) start(body string) *service {
	s := &service{}
	d := New(Config{Name: "a", Manifest: []byte(manifest + body), Directory: k.dir, Refused: k.refused, StopTimeout: 30 * time.Second})
	ctx, cancel := context.WithCancel(k.t.Context())
	s.cancel = cancel
	go func() {
		exit := d.Run(ctx, func() { s.runs.Add(1) })
		s.ended.Store(&exit)
	}()
	return s
}

func wait(d time.Duration) { <-time.After(d); synctest.Wait() }

// A manifest is placed, kept, and removed, and the pod has ended then.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet(t, dir)
		s := k.start("one")
		wait(10 * time.Second)
		k.wantStory("started one")
		if s.runs.Load() != 1 || s.ended.Load() != nil {
			t.Errorf("got %d, %+v", s.runs.Load(), s.ended.Load())
		}
		s.cancel()
		wait(2 * time.Second)
		if s.ended.Load() != nil {
			t.Errorf("got %+v before the pod has ended", s.ended.Load())
		}
		wait(4 * time.Second)
		k.wantStory("ended one")
		if s.ended.Load() == nil || s.ended.Load().StillRuns || s.ended.Load().Reason != "manifest removed, pod ended" {
			t.Errorf("got %+v", s.ended.Load())
		}
		wantFiles(t, dir)
	})
}

// The same bytes are left as they are. Others replace them when the old pod has ended: only then
// does running say that a probe reaches the new one.
func TestRun_change(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet(t, dir)
		if err := place(filepath.Join(dir, fileOf("a")), []byte(mark+manifest+"one")); err != nil {
			t.Fatal(err)
		}
		wait(2 * time.Second)
		k.wantStory("started one")
		before := modTime(t, dir)
		k.start("one") // as if the sidecar was killed: it does not stop
		wait(10 * time.Second)
		k.wantStory()
		if after := modTime(t, dir); !after.Equal(before) {
			t.Error("the file was written again")
		}
		s := k.start("two")
		wait(3 * time.Second)
		if s.runs.Load() != 0 {
			t.Error("running was called while the old pod runs")
		}
		wait(10 * time.Second)
		k.wantStory("ended one", "started two")
		if s.runs.Load() != 1 {
			t.Errorf("got %d, %+v", s.runs.Load(), s.ended.Load())
		}
		s.cancel()
		wait(time.Minute)
	})
}

func TestRun_podDoesNotEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newSlowKubelet(t, dir, time.Hour)
		s := k.start("one")
		wait(5 * time.Second)
		s.cancel()
		wait(time.Minute)
		if s.ended.Load() == nil || !s.ended.Load().StillRuns || !strings.HasPrefix(s.ended.Load().Reason, "the pod still listens 30s after its manifest was removed") {
			t.Errorf("got %+v", s.ended.Load())
		}
		wait(time.Hour)
	})
}

// A change of the manifest by another program is noticed. A file that is not ours stays.
func TestRun_changedByOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileOf("a"))
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet(t, dir)
		s := k.start("one")
		wait(2 * time.Second)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		wait(10 * time.Second)
		exit := s.ended.Load()
		if exit == nil || !strings.HasSuffix(exit.Reason, "was changed or removed by another program") || !exit.StillRuns {
			t.Errorf("got %+v", exit)
		}
	})
	if err := os.WriteFile(path, []byte("a user's"), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused bool
	d := New(Config{
		Name: "a", Manifest: []byte(manifest), Directory: dir, StopTimeout: time.Millisecond,
		Refused: func(context.Context) bool { return refused },
	})
	if exit := d.Run(t.Context(), func() { t.Error("running was called") }); !strings.Contains(exit.Reason, "was not placed by Lockstep") || !exit.StillRuns {
		t.Errorf("got %+v", exit)
	}
	// A stop leaves it too. The pod has ended if nothing listens.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, refused = range []bool{false, true} {
		exit := d.Run(ended, func() { t.Error("running was called") })
		if !strings.Contains(exit.Reason, "was not placed by Lockstep") || exit.StillRuns == refused {
			t.Errorf("refused %t: got %+v", refused, exit)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a user's" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestClean(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"lockstep-a.yaml": mark, "lockstep-b.yaml": mark + "x", ".lockstep-c.yaml.tmp": "half", "lockstep-d.yaml": "a user's",
		"lockstep-e.json": mark, "other.yaml": mark, "lockstep-f.yaml": mark[:10],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "lockstep-g.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	removed, err := Clean(dir, []string{"a"})
	if want := []string{".lockstep-c.yaml.tmp", "lockstep-b.yaml"}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("got %q, %v, want %q", removed, err, want)
	}
	wantFiles(t, dir, "lockstep-a.yaml", "lockstep-d.yaml", "lockstep-e.json", "lockstep-f.yaml", "lockstep-g.yaml", "other.yaml")
	if _, err := Clean("/nonexistent", nil); err == nil {
		t.Error("a missing directory is no error")
	}
}

// A reader never sees a part of a manifest, and no other visible name.
func TestPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileOf("a"))
	texts := []string{mark + strings.Repeat("x", 1<<20), mark + strings.Repeat("y", 1<<19)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			if err := place(path, []byte(texts[i%2])); err != nil {
				t.Error(err)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") && e.Name() != fileOf("a") {
				t.Errorf("got a visible file %s", e.Name())
			}
		}
		if text, err := os.ReadFile(path); err == nil && !slices.Contains(texts, string(text)) {
			t.Fatalf("got %d bytes", len(text))
		}
	}
	if err := place("/nonexistent/x", nil); err == nil {
		t.Error("a missing directory is no error")
	}
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func modTime(t *testing.T, dir string) time.Time {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, fileOf("a")))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}
