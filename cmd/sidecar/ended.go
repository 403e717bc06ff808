package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
)

// A sidecar that has ended answers no request. So it leaves the reason in its data directory, if that exists, for the
// commands that ask it on the same machine. In a static pod, the kubelet keeps its log.

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

// leaveReason writes how sidecar run ended. A data directory that is missing stays so, one with files of
// others stays as it is, and one that another sidecar uses has that one's reason.
func (p program) leaveReason(cmd *cobra.Command, err error) {
	_ = p.applyEnv(cmd.Flags()) // err has this error already, if there is one
	flag := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
	dir := flag("data-dir")
	_, locked := errors.AsType[*datadir.LockedError](err)
	holder := datadir.Layout(dir).Holder() // a wrong flag is an error before the lock is
	if inUse := locked || holder != 0 && holder != os.Getpid(); inUse || !datadir.Layout(dir).IsOurs() {
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
	u, err := url.Parse(base)
	if err != nil || p.lookupEnv == nil {
		return ""
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return ""
	}
	return clean(cmp.Or(p.leftReason(u.Port()), p.loggedReason(u.Port())))
}

// leftReason returns what the sidecar at a port left in its data directory.
func (p program) leftReason(port string) string {
	dir, _ := p.lookupEnv(envName("data-dir"))
	text, err := os.ReadFile(datadir.Layout(cmp.Or(dir, lockstep.Defaults().DataDir)).Ended())
	var e lastRun
	if err != nil || json.Unmarshal(text, &e) != nil {
		return ""
	}
	if _, own, err := net.SplitHostPort(e.Listen); err != nil || own != port {
		return ""
	}
	return e.String()
}

// podLogs matches the logs of the sidecar in the static pod of kube-apiserver. There it has no directory for a reason.
const podLogs = "/var/log/pods/kube-system_kube-apiserver-*/" + kubeadm.Container + "/*.log"

// printedReason matches the lines with which a sidecar ended, as the kubelet stores them.
var printedReason = regexp.MustCompile(`^\S+ stderr F sidecar: (.*)$`)

// loggedReason returns the reason at the end of the newest log of the sidecar in a static pod.
func (p program) loggedReason(port string) string {
	files, err := filepath.Glob(p.podLogs)
	if err != nil || port != nodeaddress.DefaultPort {
		return ""
	}
	newest, at := "", time.Time{}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.ModTime().After(at) {
			newest, at = file, info.ModTime()
		}
	}
	text, err := tail(newest)
	if newest == "" || err != nil {
		return ""
	}
	var reasons []string
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(text), "\n")) {
		m := printedReason.FindStringSubmatch(line)
		if m == nil {
			break
		}
		reasons = append([]string{m[1]}, reasons...)
	}
	if len(reasons) == 0 {
		return ""
	}
	return fmt.Sprintf("its container ended at %s, and the kubelet starts it again after at most five minutes: %s (%s)",
		at.UTC().Format(time.RFC3339), strings.Join(reasons, "; "), newest)
}

// logTail is how much of a log is read: its end has the reason.
const logTail = 16 << 10

func tail(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		if _, err := f.Seek(-logTail, io.SeekEnd); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(f)
	return string(text), err
}
