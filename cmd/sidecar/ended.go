package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/machine"
)

// A sidecar that ended answers no request. So it leaves the reason in its data directory, if that exists, for the
// commands that ask it on the same machine. While it runs, it keeps a mark there: one that is killed leaves it. In a static
// pod, the kubelet keeps its log.

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
	_ = p.ApplyEnv(cmd.Flags()) // err contains this error already, if there is one
	flag := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
	dir := flag("data-dir")
	_, locked := errors.AsType[*datadir.LockedError](err)
	holder := datadir.Layout(dir).Holder() // a wrong flag is an error before the lock is
	if inUse := locked || holder != 0 && holder != os.Getpid(); inUse || !datadir.Layout(dir).IsOurs() {
		return
	}
	e := reach.Exit{Time: p.Now().UTC().Truncate(time.Second), Listen: flag("listen")}
	if err != nil {
		e.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	text, failed := json.Marshal(e)
	if failed = errors.Join(failed, durable.WriteFile(datadir.Layout(dir).Ended(), text, 0o600)); failed != nil {
		fmt.Fprintf(p.Stderr, "warning: the reason of this exit is not kept: %v\n", failed)
	}
}

// forgetReason deletes the reason of the last exit: a sidecar starts.
func (p program) forgetReason(dir datadir.Layout) {
	if err := os.Remove(dir.Ended()); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		fmt.Fprintf(p.Stderr, "warning: the reason of the last exit is not deleted: %v\n", err)
	}
}

// podLogs matches the logs of the sidecar in the static pod of kube-apiserver. There it has no directory for a reason.
const podLogs = "/var/log/pods/kube-system_kube-apiserver-*/" + kubeadm.Container + "/*.log"
