package role

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
	"github.com/lockstep-dev/lockstep/protocol"
)

func pod(name, address string) service.Service {
	return service.Service{
		Name: name, Role: protocol.RoleController, StaticPod: &service.StaticPod{Directory: "/pods", Content: []byte("x")}, StopTimeout: time.Minute,
		Readiness: &readiness.Config{TCPSocket: &readiness.TCPSocket{Address: address}, Timeout: time.Second, Period: time.Second, SuccessThreshold: 1, FailureThreshold: 1},
	}
}

// loadedDisk returns the disk as a sidecar loads it.
func loadedDisk(t *testing.T, path string) *Disk {
	t.Helper()
	d := NewDisk(path)
	if err := d.Load(); err != nil {
		t.Fatal(err)
	}
	return d
}

func wantStarted(t *testing.T, path string, names ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for _, st := range loadedDisk(t, path).Started() {
		got = append(got, st.Name)
	}
	if !slices.Equal(got, names) {
		t.Errorf("on disk: %q, want %q", got, names)
	}
}

// A sidecar is killed. The next one loads a directory without some of the services: their units and
// pods end before anything starts.
func TestSupervised_killed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "roles.json")
		killed := newSupervisedRigOf(t, loadedDisk(t, path), pod("old-pod", "127.0.0.1:1"), unit("old-unit", "a.service"), unit("unit", "b.service"))
		killed.variables.Set(service.Variables{EtcdServers: "one"})
		killed.controller.Start()
		killed.want("start old-pod")
		// A service that is about to start is on disk before that.
		wantStarted(t, path, "old-pod", "old-unit", "unit")

		next := newSupervisedRigOf(t, loadedDisk(t, path), process("api", protocol.RoleController, "/x"), unit("unit", "b.service"), process("proxy", protocol.RoleWorker, "/y"))
		next.variables.Set(service.Variables{EtcdServers: "one"})
		next.wantRunning(next.controller, Running{Any: true, Left: true})
		next.drivers.setStuck(true)
		next.controller.Start()
		next.want("stop old-unit", "stop old-pod")
		next.wantRunning(next.controller, Running{Any: true, Left: true})
		next.worker.Start() // must wait, too
		next.want("stop old-unit", "stop old-pod")
		wantStarted(t, path, "old-pod", "old-unit")
		next.drivers.setStuck(false)
		<-time.After(2 * retryPause)
		next.want("stop old-unit", "stop old-pod", "start api /x", "start unit", "start proxy /y")
		wantStarted(t, path, "unit")
		next.wantRunning(next.controller, Running{Any: true, All: true, Ready: true})

		if err := next.controller.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		wantStarted(t, path)
	})
}

// A service left from a role that the node lost stops too, and its own order decides when.
func TestSupervised_killedAndWithoutRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "roles.json")
		if err := loadedDisk(t, path).SetStarted(service.StartedOf([]service.Service{unit("old", "a.service")})); err != nil {
			t.Fatal(err)
		}
		r := newSupervisedRigOf(t, loadedDisk(t, path), process("proxy", protocol.RoleWorker, "/y"))
		r.variables.Set(service.Variables{EtcdServers: "one"})
		r.worker.Start()
		r.want()
		r.wantRunning(r.controller, Running{Any: true, Left: true})
		r.drivers.setStuck(true)
		if err := r.controller.Stop(t.Context()); !errors.Is(err, service.ErrStillRuns) {
			t.Errorf("it still runs, and Stop returned %v", err)
		}
		r.wantRunning(r.controller, Running{Any: true, Left: true})
		r.drivers.setStuck(false)
		if err := r.controller.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		<-time.After(2 * retryPause)
		r.want("stop old", "stop old", "start proxy /y")
		r.wantRunning(r.controller, Running{None: true, All: true, Ready: true})
		wantStarted(t, path)
	})
}

// A unit whose name cannot be written to disk does not start, nor do the services after it. Running ones go on.
func TestSupervised_notKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "missing")
		r := newSupervisedRigOf(t, loadedDisk(t, filepath.Join(dir, "roles.json")),
			process("first", protocol.RoleController, "/x"), unit("unit", "a.service"), process("last", protocol.RoleController, "/y"))
		r.variables.Set(service.Variables{EtcdServers: "one"})
		r.controller.Start()
		<-time.After(time.Second)
		r.want("start first /x")
		r.wantRunning(r.controller, Running{Any: true})
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * retryPause)
		r.want("start unit", "start last /y")
		wantStarted(t, filepath.Join(dir, "roles.json"), "unit")
	})
}

// A file that a person edited is refused with a reason.
func TestDisk_started(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roles.json")
	for _, text := range []string{
		`{"roles":[],"started":[{"name":"x","role":"kubernetes_controller","stopTimeout":"1s"}]}`,
		`{"roles":[],"started":[{"name":"x","systemdUnit":"a.service","staticPodDirectory":"/pods","address":"[::1]:1","stopTimeout":"1s"}]}`,
		`{"roles":[],"started":[{"name":"x","staticPodDirectory":"/pods","stopTimeout":"1s"}]}`,
		`{"roles":[],"started":[{"name":"x","systemdUnit":"a.service","stopTimeout":"soon"}]}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := NewDisk(path).Load(); err == nil {
			t.Errorf("%s was loaded", text)
		}
	}
}

func TestStarted(t *testing.T) {
	all := []service.Service{unit("unit", "a.service"), pod("pod", "127.0.0.1:1"), process("p", protocol.RoleWorker, "/x")}
	started := service.StartedOf(all)
	if len(started) != 2 {
		t.Fatalf("got %+v", started)
	}
	for i, other := range []service.Service{unit("unit", "b.service"), pod("pod", "127.0.0.1:2")} {
		st := started[i]
		if err := st.Validate(); err != nil {
			t.Error(err)
		}
		if !st.Is(all[i]) || st.Is(other) || st.Is(all[1-i]) || st.Is(all[2]) || !st.Is(st.Service()) || st.Service().StopTimeout != time.Minute {
			t.Errorf("%+v is not the service that it is of", st)
		}
	}
}
