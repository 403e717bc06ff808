package views

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// Another cause for the same reason is printed. One that only lasts longer is not.
func TestWaitCauses(t *testing.T) {
	var out strings.Builder
	w := console.WaitCauses{Out: &out, Last: "no answer"}
	for _, cause := range []string{
		"StatusMissing: configmaps is forbidden, for 3s", "StatusMissing: configmaps is forbidden, for 1m4s", "StatusMissing: secrets is forbidden, for 2.5s",
		"StatusMissing: secrets is forbidden, for 300ms", "ReconcilerTooOld: needs 1.1.0", "ReconcilerTooOld: needs 1.2.0",
		"it ended at 2026-11-27T00:10:11Z: x (/l/1.log)", "it ended at 2026-11-27T00:10:12Z: x (/l/2.log)",
	} {
		w.Print(cause)
	}
	const want = "waiting: StatusMissing: configmaps is forbidden, for 3s\nwaiting: StatusMissing: secrets is forbidden, for 2.5s\n" +
		"waiting: ReconcilerTooOld: needs 1.1.0\nwaiting: ReconcilerTooOld: needs 1.2.0\nwaiting: it ended at 2026-11-27T00:10:11Z: x (/l/1.log)\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if w.Last != "it ended at 2026-11-27T00:10:12Z: x (/l/2.log)" {
		t.Errorf("got the last cause %q", w.Last)
	}
}

// A kube-apiserver that starts passes its checks one after another: that is one cause. A check that fails later is another one.
func TestWaitCauses_starting(t *testing.T) {
	var out strings.Builder
	w := console.WaitCauses{Out: &out}
	const why = `ServicesNotReady: service "kube-apiserver" is not ready (Running): HTTP status 500: `
	const first = why + "[-]poststarthook/rbac/bootstrap-roles failed: reason withheld; [-]informer-sync failed: 2 informers"
	for _, cause := range []string{first, why + "[-]informer-sync failed: 1 informer", why + "[-]poststarthook/priority failed: reason withheld", why + "[-]etcd failed: timeout"} {
		w.Print(cause)
	}
	if want := "waiting: " + first + "\nwaiting: " + why + "[-]etcd failed: timeout\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// A new reason is printed at once, another cause of the same one when it has lasted for a while, and nothing after the end.
func TestWaitReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		w := settledCauses{causes: console.WaitCauses{Out: &out}, cause: "no answer"}
		for _, step := range []struct {
			cause string
			lasts time.Duration
		}{
			{"no answer", time.Hour},
			{"ServicesNotReady: refused", settles / 2}, {"ServicesNotReady: 403", settles - 1}, {"ServicesNotReady: 500, for 1s", settles / 2},
			{"ServicesNotReady: 500, for 2s", settles}, {"NotRegistered: not yet", 1}, {"NotRegistered: not read", 1},
		} {
			w.print(step.cause)
			<-time.After(step.lasts)
			synctest.Wait()
		}
		if got := w.end(); got != "NotRegistered: not read" {
			t.Errorf("got the last cause %q", got)
		}
		<-time.After(time.Hour)
		const want = "waiting: ServicesNotReady: refused\nwaiting: ServicesNotReady: 500, for 2s\nwaiting: NotRegistered: not yet\n"
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	})
}

// Causes that change faster than they settle are printed too, at times: two that take turns, and those that never come
// back. A moment of another cause is not.
func TestWaitReasons_neverSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		w := settledCauses{causes: console.WaitCauses{Out: &out}}
		causes := func(n int, name func(int) string) {
			for i := range n {
				w.print("ServicesNotReady: " + name(i))
				<-time.After(900 * time.Millisecond)
				synctest.Wait()
			}
		}
		causes(25, func(i int) string { return []string{"refused", "403"}[i%2] })
		causes(12, func(i int) string { return "read from port " + strings.Repeat("1", i) })
		w.print("StatusMissing: none")
		<-time.After(time.Hour)
		w.print("StatusMissing: moment")
		<-time.After(settles - 1)
		w.print("StatusMissing: none")
		<-time.After(time.Hour)
		w.end()
		const want = "waiting: ServicesNotReady: refused\nwaiting: ServicesNotReady: 403\nwaiting: ServicesNotReady: read from port 1111111111\n" +
			"waiting: StatusMissing: none\n"
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	})
}
