package quorum

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// The database of etcd is full. Each node says that, with the command that helps, also one that is
// started again then. The command, typed as it was printed, makes etcd accept writes again.
func TestFull(t *testing.T) {
	t.Parallel()
	const quota = "--etcd-quota-bytes=16777216"
	rig := New(t, "")
	a, b := rig.Node("a"), rig.Node("b")
	a.Start(quota)
	a.AwaitRunning()
	b.Start(append(joinArgs(t, a, 1), quota)...)
	awaitVoters(a, b)
	client := a.Client()
	fill(t, client)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Start(quota)
	printed := ""
	for _, n := range []*Node{a, b} {
		cluster.Await(t, n.ID+" to say what helps", func(ctx context.Context) error {
			_, body, err := n.Get(ctx, "/status")
			if err != nil {
				return err
			}
			var now fullStatus
			if err := json.Unmarshal([]byte(body), &now); err != nil {
				return err
			}
			if printed = now.command(); printed == "" {
				return fmt.Errorf("got %+v", now)
			}
			return nil
		})
	}
	if out, err := b.tryCommand(t, "cluster", "token", "create"); err == nil || !strings.Contains(out, "sidecar cluster defrag") {
		t.Errorf("a command that writes: %v: %s", err, out)
	}
	t.Log(printed)
	out := b.command(t, strings.Fields(printed)[1:]...)
	if strings.Count(out, " now\n") != 2 {
		t.Errorf("got %s", out)
	}
	awaitVoters(a, b)
	a.Put(client, "/test/after", "x")
}

// fullStatus is the part of /status about etcd.
type fullStatus struct {
	Etcd     struct{ Problem string }
	Warnings []struct{ Reason, Message string }
}

var defragCommand = regexp.MustCompile(`sidecar cluster defrag( --[^ ;]+)*`)

// command returns the command in the row ETCD and in a warning; empty: one of them contains none.
func (s fullStatus) command() string {
	for _, w := range s.Warnings {
		if w.Reason == "EtcdFull" && defragCommand.MatchString(w.Message) {
			return defragCommand.FindString(s.Etcd.Problem)
		}
	}
	return ""
}

// fill writes until etcd refuses that.
func fill(t *testing.T, client *etcd.Client) {
	t.Helper()
	value := strings.Repeat("x", 1<<20)
	for {
		_, err := client.Write(t.Context(), nil, clientv3.OpPut("/test/filled", value))
		switch {
		case etcd.IsNoSpace(err):
			return
		case err != nil:
			t.Fatal(err)
		}
	}
}
