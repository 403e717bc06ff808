package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
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
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/machine"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
)

// A sidecar that has ended answers no request. So it leaves the reason in its data directory, if that exists, for the
// commands that ask it on the same machine. While it runs, it keeps a mark there: one that is killed leaves it. In a static
// pod, the kubelet keeps its log.

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

// beginRun marks the data directory as used by this process, and deletes the reason of the last exit. A directory that another
// sidecar uses stays as it is. It warns of a sidecar before this one that left no reason.
func (p program) beginRun(opts lockstep.Options, log *slog.Logger) {
	dir := datadir.Layout(opts.DataDir)
	if _, embedded := opts.Etcd.(lockstep.Embedded); embedded || opts.Services != "" {
		_ = dir.Make() // the sidecar makes it anyway, and then reports the error
	}
	if !dir.IsOurs() {
		return
	}
	claim, before, err := dir.Claim(datadir.Run{Since: p.Now().UTC().Truncate(time.Second), Listen: opts.Listen, Boot: machine.BootID()})
	if _, inUse := errors.AsType[*datadir.LockedError](err); inUse {
		return
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "warning: if this sidecar is killed, sidecar status does not say so: %v\n", err)
	}
	p.forgetReason(dir)
	p.running.claim = claim
	if before != nil {
		log.Warn("the sidecar before this one ended without a reason: it was killed, it crashed, or the machine stopped",
			"started", before.Since, "machineRestarted", before.Boot != machine.BootID())
	}
}

// runMark is the mark of this process in its data directory. A nil claim: there is none.
type runMark struct{ claim *datadir.Claim }

// endRun leaves the reason of the exit, and removes the mark.
func (p program) endRun(cmd *cobra.Command, err error) {
	p.leaveReason(cmd, err)
	if p.running.claim == nil {
		return
	}
	if err := p.running.claim.End(); err != nil {
		fmt.Fprintf(p.Stderr, "warning: the mark of this sidecar is not deleted: %v\n", err)
	}
}

// leaveReason writes how sidecar run ended. A data directory that is missing stays so, one with files of
// others stays as it is, and one that another sidecar uses has that one's reason.
func (p program) leaveReason(cmd *cobra.Command, err error) {
	_ = p.ApplyEnv(cmd.Flags()) // err has this error already, if there is one
	flag := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
	dir := flag("data-dir")
	_, locked := errors.AsType[*datadir.LockedError](err)
	holder := datadir.Layout(dir).Holder() // a wrong flag is an error before the lock is
	if inUse := locked || holder != 0 && holder != os.Getpid(); inUse || !datadir.Layout(dir).IsOurs() {
		return
	}
	e := lastRun{Time: p.Now().UTC().Truncate(time.Second), Listen: flag("listen")}
	if err != nil {
		e.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	text, failed := json.Marshal(e)
	if failed = errors.Join(failed, durable.WriteFile(datadir.Layout(dir).Ended(), text, modeSecret)); failed != nil {
		fmt.Fprintf(p.Stderr, "warning: the reason of this exit is not kept: %v\n", failed)
	}
}

// forgetReason deletes the reason of the last exit: a sidecar starts.
func (p program) forgetReason(dir datadir.Layout) {
	if err := os.Remove(dir.Ended()); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		fmt.Fprintf(p.Stderr, "warning: the reason of the last exit is not deleted: %v\n", err)
	}
}

// lastExit returns how the sidecar at a URL of this machine ended; empty: not known.
func (p program) lastExit(base string) string {
	u, err := url.Parse(base)
	if err != nil || p.LookupEnv == nil {
		return ""
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return ""
	}
	return terminal.Clean(cmp.Or(p.leftReason(u.Port()), p.silentEnd(u.Port()), p.loggedReason(u.Port())))
}

// dataDir is the data directory of this machine's sidecar, as far as the environment says.
func (p program) dataDir() datadir.Layout {
	dir, _ := p.LookupEnv(console.EnvName("data-dir"))
	return datadir.Layout(cmp.Or(dir, lockstep.Defaults().DataDir))
}

// silentEnd reports that the sidecar at a port ended and left no reason, or that it runs.
func (p program) silentEnd(port string) string {
	run, pid, found := p.dataDir().LastRun()
	if _, own, err := net.SplitHostPort(run.Listen); !found || err != nil || own != port {
		return ""
	}
	since := run.Since.UTC()
	switch {
	case pid != 0:
		return fmt.Sprintf("its process %d runs since %s, and does not answer there: its log says what it does", pid, since.Format(time.RFC3339))
	case run.Boot != "" && run.Boot != machine.BootID():
		return fmt.Sprintf("it started at %s and ended without a reason, as in a loss of power: the machine has started again since, and the sidecar has not",
			since.Format(time.RFC3339))
	}
	return fmt.Sprintf("it started at %s and ended without a reason: it was killed (kill -9, out of memory), or it crashed, which its log shows; "+
		"to see whether memory ran out: "+kernelLog, since.Format(time.RFC3339), since.Format("2006-01-02 15:04:05 UTC"))
}

// kernelLog is the command that lists the processes which the kernel has killed since a time.
const kernelLog = `journalctl -k --since "%s" | grep -i "killed process"`

// leftReason returns what the sidecar at a port left in its data directory.
func (p program) leftReason(port string) string {
	text, err := os.ReadFile(p.dataDir().Ended())
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
	files, err := filepath.Glob(p.PodLogs)
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
		return fmt.Sprintf("its log ends without a reason (%s), so it starts, was stopped, or was killed (kill -9, out of memory): to see how its container ended: crictl ps -a --name %s",
			newest, kubeadm.Container)
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
