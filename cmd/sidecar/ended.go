package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/durable"
)

// A sidecar that has ended answers no request. So it leaves the reason in its data directory, if that exists, for the
// commands that ask it on the same machine.

// lastRun is how a sidecar ended.
type lastRun struct {
	Time   time.Time `json:"time"`
	Listen string    `json:"listen"`
	Error  string    `json:"error"` // empty: it was stopped
}

func (e lastRun) String() string {
	at := e.Time.UTC().Format(time.RFC3339)
	if e.Error == "" {
		return "it was stopped at " + at
	}
	return "it ended at " + at + ": " + e.Error
}

// leaveReason writes how sidecar run ended. A data directory that is missing stays so, and one that another sidecar
// uses has that one's reason.
func (p program) leaveReason(cmd *cobra.Command, err error) {
	_ = p.applyEnv(cmd.Flags()) // err has this error already, if there is one
	flag := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
	dir := flag("data-dir")
	info, missing := os.Stat(dir)
	if _, inUse := errors.AsType[*datadir.LockedError](err); inUse || missing != nil || !info.IsDir() {
		return
	}
	e := lastRun{Time: p.now().UTC().Truncate(time.Second), Listen: flag("listen")}
	if err != nil {
		e.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	text, failed := json.Marshal(e)
	if failed = errors.Join(failed, durable.WriteFile(datadir.Layout(dir).Ended(), text, modeSecret)); failed != nil {
		fmt.Fprintf(p.stderr, "warning: the reason of this exit is not kept: %v\n", failed)
	}
}

// forgetReason deletes the reason of the last exit: a sidecar starts.
func (p program) forgetReason(dir string) {
	if err := os.Remove(datadir.Layout(dir).Ended()); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		fmt.Fprintf(p.stderr, "warning: the reason of the last exit is not deleted: %v\n", err)
	}
}

// lastExit returns how the sidecar at a URL of this machine ended; empty: not known.
func (p program) lastExit(base string) string {
	if p.lookupEnv == nil {
		return ""
	}
	dir, _ := p.lookupEnv(envName("data-dir"))
	text, err := os.ReadFile(datadir.Layout(cmp.Or(dir, lockstep.Defaults().DataDir)).Ended())
	var e lastRun
	u, wrong := url.Parse(base)
	if err != nil || wrong != nil || json.Unmarshal(text, &e) != nil {
		return ""
	}
	ip, err := netip.ParseAddr(u.Hostname())
	_, port, wrong := net.SplitHostPort(e.Listen)
	if wrong != nil || port != u.Port() || u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return ""
	}
	return clean(e.String())
}
