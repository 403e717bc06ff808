package process

import (
	"os"
	"os/user"
	"strings"
	"testing"
)

// A process of another user runs with its ID, its groups and its home, and nothing of root's.
func TestRun_user(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: needs root")
	}
	const script = `echo "$(id -u) $(id -g) $(id -G) $HOME $USER"; cat /proc/self/status | grep CapEff`
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ user, group, want string }{
		{"nobody", "", nobody.Uid + " " + nobody.Gid + " " + nobody.Gid + " " + nobody.HomeDir + " nobody"},
		{nobody.Uid, "4321", nobody.Uid + " 4321 4321 " + nobody.Gid + " " + nobody.HomeDir + " nobody"},
		{"54321", "4321", "54321 4321 4321 "},
	} {
		s := start(t, Config{Process: Process{Command: []string{"/bin/sh", "-c", script}, WorkingDir: "/", User: tc.user, Group: tc.group}})
		s.wantExit(t, "exit status 0")
		got := strings.Join(s.LastLines(), "|")
		if !strings.HasPrefix(got, tc.want) || !strings.HasSuffix(got, "CapEff:\t0000000000000000") {
			t.Errorf("user %q, group %q: got %q, want %q", tc.user, tc.group, got, tc.want)
		}
	}
	s := start(t, Config{Process: Process{Command: []string{"/bin/true"}, User: "no-such-user"}})
	s.wantExit(t, `start: user "no-such-user" does not exist`)
}

// It stops like any other: the sidecar may signal it, and the kernel ends it with the sidecar's thread.
func TestRun_userIsStopped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: needs root")
	}
	s := start(t, Config{Process: Process{Command: []string{"/bin/sh", "-c", "sleep 1000"}, WorkingDir: "/", User: "nobody"}})
	<-s.runs
	s.cancel()
	s.wantExit(t, "signal: terminated")
}

func TestLookup(t *testing.T) {
	for _, tc := range []struct{ user, group, want string }{
		{"no-such-user", "", `user "no-such-user" does not exist`},
		{"root", "no-such-group", `group "no-such-group" does not exist`},
		{"54321", "", "group must be set"},
		{"4294967295", "1", "does not exist"},
		{"-1", "1", "does not exist"},
		{"root", "4294967295", "does not exist"},
	} {
		if got, err := Lookup(tc.user, tc.group); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("user %q, group %q: got %+v, %v; want %s", tc.user, tc.group, got, err, tc.want)
		}
	}
	id, err := lookup("54321", "4321")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := id.usable(54321, 4321); got != nil || err != nil {
		t.Errorf("its own user: got %+v, %v", got, err)
	}
	if got, err := id.usable(1000, 4321); err == nil || !strings.Contains(err.Error(), "only a sidecar of root") {
		t.Errorf("another user: got %+v, %v", got, err)
	}
}
