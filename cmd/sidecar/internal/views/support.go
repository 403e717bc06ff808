package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/kubeadmnode"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/runflags"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/support"
)

// The command ends within 30 s, even if a part hangs.
const (
	supportCollect = 20 * time.Second
	supportWrite   = 8 * time.Second
)

// supportFlags are the flags of support.
type supportFlags struct {
	file, kubeconfig string
	force            bool
	server           reach.Server
	kubernetesDir    string
	etcd             runflags.Flags
}

// supportCommand is sidecar support.
func (p program) supportCommand() *cobra.Command {
	f := supportFlags{etcd: runflags.Default()}
	cmd := &cobra.Command{
		Use:   "support",
		Short: "Collect what helps to find out what is wrong, in one file",
		Long: `Collect what helps to find out what is wrong on this node, in one .tar.gz: what its sidecar
shows (status, checks, flags, metrics, recording), the history and the keys of the store,
versions, certificates, and the findings of sidecar kubeadm --check.

The contents are listed before the file is written. Whatever does not answer is missing in
it, with the reason: the command works while etcd, the sidecar or the kube-apiserver is
stopped or hangs, and ends within 30 seconds.

The file has no keys, no tokens, and no passwords. It has names, addresses, and what people
wrote as messages. Read it before you send it to others.`,
		Args:    console.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return f.etcd.ValidateEtcd(cmd.Flags()) },
	}
	flags := cmd.Flags()
	f.server.Bind(flags)
	flags.AddFlagSet(reach.BindEtcd(&f.etcd).Flags)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "Kubeconfig `file` for this node's kube-apiserver. If empty, it is not asked.")
	flags.StringVar(&f.kubernetesDir, "kubernetes-dir", kubeadmnode.KubernetesDir, "The `directory` of kubeadm on this node.")
	flags.StringVarP(&f.file, "output", "o", "", "The `file` to write; - is the standard output. If empty, lockstep-HOST-TIME.tar.gz in this directory.")
	flags.BoolVar(&f.force, "force", false, "Also overwrite a file that exists.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		reach, err := reach.EtcdConfig(flags, &f.etcd)
		if _, wrong := errors.AsType[console.ExitError](err); wrong {
			return err
		}
		client, err := f.server.Client(p.Program)
		if err != nil {
			return err
		}
		return p.support(cmd.Context(), f, supportSources{p: p, f: f, reach: reach, reachErr: err, server: client})
	}
	return cmd
}

// support collects, lists and writes.
func (p program) support(ctx context.Context, f supportFlags, from supportSources) error {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	now := p.Now().UTC()
	dir := "lockstep-" + host + "-" + now.Format("20060102T150405Z")
	list, file := p.Stdout, cmp.Or(f.file, dir+".tar.gz")
	if file == "-" {
		list = p.Stderr
	}
	if err := f.mayWrite(file); err != nil { // before people wait
		return err
	}
	files := support.Collect(ctx, supportCollect, from.parts())
	packed, err := support.Archive(dir, now, files)
	if err != nil {
		return err
	}
	missing := listSupport(list, files)
	if err := within(supportWrite, func() error { return p.writeSupport(file, packed) }); err != nil {
		return fmt.Errorf("write %s: %w", file, noRoom(err))
	}
	fmt.Fprintf(list, "\n%s written to %s: %s of %s; %s missing\n",
		terminal.Bytes(int64(len(packed))), file, terminal.Count(len(files)-missing, "file"), fmt.Sprint(len(files)), fmt.Sprint(missing))
	return nil
}

// listSupport prints the contents of the archive, and returns how many parts are missing.
func listSupport(w io.Writer, files []support.File) (missing int) {
	rows := [][]string{{"FILE", "SIZE", "CONTENT"}}
	for _, f := range files {
		size, about := terminal.Bytes(int64(f.Bytes)), f.About
		if f.Problem != "" {
			missing++
			size, about = "MISSING", f.About+": "+terminal.Clean(strings.ReplaceAll(f.Problem, "\n", "; "))
		}
		rows = append(rows, []string{f.Name, size, about})
	}
	terminal.Printer{W: w}.Rows(rows)
	return missing
}

// mayWrite returns an error if the file exists. --force replaces only regular files, so never a device.
func (f supportFlags) mayWrite(file string) error {
	info, err := os.Lstat(file)
	switch {
	case file == "-" || err != nil:
		return nil //nolint:nilerr // there is none, or the write says why it cannot be replaced
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s exists, and is not a regular file: name another one with -o", file)
	case !f.force:
		return fmt.Errorf("%s exists: name another file with -o, or add --force", file)
	}
	return nil
}

func (p program) writeSupport(file string, content []byte) error {
	if file != "-" {
		return durable.WriteFile(file, content, 0o600)
	}
	_, err := p.Stdout.Write(content)
	return err
}

// noRoom adds the remedy to an error of a full disk.
func noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w; name a file on another disk with -o, or -o - for the standard output", err)
	}
	return err
}

// within runs do, and abandons it if it does not end in time: the program ends then.
func within(limit time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("the disk did not answer within %s", limit)
	}
}

// supportSources are the sources of the parts.
type supportSources struct {
	p        program
	f        supportFlags
	reach    etcd.Config
	reachErr error // why etcd cannot be asked
	server   *reach.Sidecar
}
