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
	differing, err := newDiffReport(preview)
	switch {
	case err != nil:
	case form == "json":
		err = p.PrintJSON(differing)
	default:
		err = differing.print(p.Stdout, preview)
	}
	if err != nil {
		return err
	}
	return differing.outcome()
}

// print prints the differences. Programs that read diffs skip the remarks, which are before "diff".
func (d diffReport) print(w io.Writer, preview report.Preview) error {
	var out bytes.Buffer
	remark := func(text string) {
		if text != "" {
			fmt.Fprintf(&out, "# %s\n", terminal.Clean(text))
		}
	}
	if preview.Replaces != "" {
		remark(replaceNotice(preview.Replaces, preview.Bundle))
	}
	held := 0
	for _, o := range d.Objects {
		switch o.of.Action {
		case report.ActionHold:
			held++
		case report.ActionCreate, report.ActionChange, report.ActionRecreate, report.ActionPrune:
			remark(remarkOn(o.of.Action, preview))
			remark(o.Message)
			was, is := sidesOf(o.of)
			fmt.Fprintf(&out, "diff -u %s %s\n%s", was, is, o.Diff)
		case report.ActionNone, report.ActionFail: // an error says so
		}
	}
	if held > 0 {
		remark(fmt.Sprintf("%s not removed, though missing from the bundle: %s", terminal.Count(held, "object"), preview.PruneHeld))
	}
	_, err := out.WriteTo(w)
	return err
}

// outcome is an error if an object fails, or if anything differs.
func (d diffReport) outcome() error {
	var failures []error
	for _, o := range d.Objects {
		if o.of.Action == report.ActionFail {
			failures = append(failures, fmt.Errorf("%s: %s", o.of, o.Message))
		}
	}
	if len(failures) == 0 && d.Differs {
		return console.ExitError{Code: console.ExitDiffers}
	}
	return errors.Join(failures...)
}

// unified returns the diff of one object.
func unified(o report.Previewed) (string, error) {
	live, err := toYAML(o.Live)
	wanted, failed := toYAML(o.Wanted)
	if err := errors.Join(err, failed); err != nil {
		return "", fmt.Errorf("%s: %w", o, err)
	}
	was, is := sidesOf(o)
	// The library's first line omits the -u.
	_, body, _ := bytes.Cut(diff.Diff(was, live, is, wanted), []byte("\n"))
	return string(body), nil
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
