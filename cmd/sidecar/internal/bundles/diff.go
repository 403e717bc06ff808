package bundles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/kubeaccess"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
)

// bindInspector adds the flags that name the cluster to compare with.
func bindInspector(flags *pflag.FlagSet, opts *kubeaccess.InspectorConfig, kubeconfig string) {
	flags.StringVar(&opts.Kubeconfig, "kubeconfig", opts.Kubeconfig, kubeconfig)
	flags.BoolVar(&opts.AllowMassPrune, "allow-mass-prune", opts.AllowMassPrune, "Set this if the sidecars run with it: large removals are not held.")
}

func (p program) diffCommand() *cobra.Command {
	var opts kubeaccess.InspectorConfig
	output := console.NewChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "diff DIR",
		Short: "Show what a bundle would change in a cluster",
		Long: `Show what a bundle would change in a cluster: a unified diff for each object, from
dry runs of the API server. Nothing is written. The contents of Secrets are not
shown.

This command does not read etcd. Use "sidecar plan" to see which nodes have to be
upgraded first, and when objects are removed.

Exit codes: 0 nothing differs, 1 something differs, 2 an object fails, the API
server is unreachable, or the bundle is invalid.`,
		Args: oneDir(bundleDir),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Kubeconfig == "" {
				return console.Usagef("--kubeconfig: required: a kubeconfig file for any kube-apiserver of the cluster (on a node of kubeadm: . /etc/lockstep/env)")
			}
			err := p.diffBundle(cmd, opts, args[0], output.Value)
			if code, own := errors.AsType[console.ExitError](err); err == nil || own && code.Code == console.ExitDiffers {
				return err
			}
			return console.ExitError{Code: console.ExitTrouble, Err: err}
		},
	}
	bindInspector(cmd.Flags(), &opts, "Kubeconfig `file` for any kube-apiserver of the cluster. Required.")
	console.BindOutput(cmd, &output)
	return cmd
}

func (p program) diffBundle(cmd *cobra.Command, opts kubeaccess.InspectorConfig, dir, form string) (err error) {
	if opts.Bundle, err = bundle.Open(dir); err != nil {
		return err
	}
	inspector, err := kubeaccess.NewInspector(opts)
	if err != nil {
		return err
	}
	preview, err := inspector.Preview(cmd.Context())
	if err != nil {
		return err
	}
	text := p.Stdout
	if form == "json" {
		text = io.Discard
		differing, err := newDiffReport(preview)
		if err := errors.Join(err, p.PrintJSON(differing)); err != nil {
			return err
		}
	}
	return printDiff(text, preview)
}

// printDiff prints the differences. Its error reports whether there are any.
func printDiff(w io.Writer, preview report.Preview) error {
	var failures []error
	differs, held := false, 0
	if preview.Replaces != "" {
		fmt.Fprintf(w, "# %s\n", replaceNotice(preview.Replaces, preview.Bundle))
	}
	for _, o := range preview.Objects {
		switch o.Action {
		case report.ActionNone:
			continue
		case report.ActionHold:
			held++
			continue
		case report.ActionFail:
			failures = append(failures, fmt.Errorf("%s: %s", o, terminal.Clean(o.Message)))
			continue
		case report.ActionCreate, report.ActionChange, report.ActionRecreate, report.ActionPrune:
		}
		differs = true
		shown, err := unified(o, remarkOn(o.Action, preview))
		if err != nil {
			return err
		}
		if _, err := w.Write(shown); err != nil {
			return err
		}
	}
	if held > 0 {
		fmt.Fprintf(w, "# %s not removed, though missing from the bundle: %s\n", terminal.Count(held, "object"), terminal.Clean(preview.PruneHeld))
	}
	switch {
	case len(failures) > 0:
		return errors.Join(failures...)
	case differs:
		return console.ExitError{Code: console.ExitDiffers}
	}
	return nil
}

// unified returns the diff of one object, after a remark. Programs that read diffs
// skip the lines before "diff".
func unified(o report.Previewed, remark string) ([]byte, error) {
	body, err := unifiedBody(o)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, line := range []string{remark, o.Message} {
		if line != "" {
			fmt.Fprintf(&out, "# %s\n", terminal.Clean(line))
		}
	}
	was, is := sidesOf(o)
	fmt.Fprintf(&out, "diff -u %s %s\n", was, is)
	out.Write(body)
	return out.Bytes(), nil
}

// unifiedBody is the diff itself.
func unifiedBody(o report.Previewed) ([]byte, error) {
	live, err := toYAML(o.Live)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o, err)
	}
	wanted, err := toYAML(o.Wanted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o, err)
	}
	was, is := sidesOf(o)
	// The library's first line omits the -u.
	_, body, _ := bytes.Cut(diff.Diff(was, live, is, wanted), []byte("\n"))
	return body, nil
}

// sidesOf returns the names of both sides of a diff.
func sidesOf(o report.Previewed) (was, is string) {
	name := path.Join(o.Kind, o.Namespace, o.Name)
	return path.Join("live", name), path.Join("bundle", name)
}

// remarkOn returns a remark about facts that the diff itself cannot show.
func remarkOn(a report.Action, preview report.Preview) string {
	switch {
	case a == report.ActionRecreate:
		return "to be deleted and created again: an immutable field changes"
	case a == report.ActionPrune && preview.PruneImmediately:
		return "to be removed as soon as all other objects are in place"
	case a == report.ActionPrune:
		return "to be removed when no node of another release is registered any more"
	}
	return ""
}

func toYAML(form map[string]any) ([]byte, error) {
	if form == nil {
		return nil, nil
	}
	return yaml.Marshal(form)
}
