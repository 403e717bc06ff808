package clusters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/rotation"
	"github.com/lockstep-dev/lockstep/protocol"
)

func (p program) rotateCommand() *cobra.Command {
	yes, detach := false, false
	cmd := &cobra.Command{
		Use:   "rotate-ca",
		Short: "Replace the CA of a running cluster, so that a removed node is out for good",
		Long: `Replace the CA of a running cluster, so that a removed node is out for good: what it
has, its certificate and, once it has voted, the key of the CA, opens nothing any more.

The sidecars create a new CA, come to trust both, get a certificate of the new one each,
and drop the old one. One node after another restarts its etcd member twice, and with it
the services that use $(ETCD_CAFILE). No gate closes for it. A cluster of one or two
voters accepts no writes while a member restarts.

Remove the nodes first that you do not trust, with sidecar cluster remove and sidecar node
remove, and close the ports of etcd to them: until the end, what they have is valid. All
other nodes have to run: the replacement waits for a node that is off, and goes on when it is back
or removed. Meanwhile no node joins, and no token is created. At the end all tokens are
deleted.

Without --yes, the command only shows which nodes get a certificate of the new CA. With it,
the command begins, or finds what has begun, and shows what it waits for until the
end. If it is interrupted, the sidecars go on. Other programs that read ca.crt in the data
directory need a restart afterwards.`,
		Args: console.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if detach && !yes {
				return console.Usagef("--detach: needs --yes: without it the command begins nothing")
			}
			return nil
		},
	}
	cmd = reach.WithEtcd(cmd, func(ctx context.Context, at reach.Etcd, _ []string) error {
		all, err := quorum.ReadParticipants(ctx, at.Client)
		if err != nil {
			return err
		}
		if !yes && !all.Active() {
			p.printParticipants(all)
			return nil
		}
		if yes {
			already, err := quorum.StartRotation(ctx, at.Client)
			if err != nil {
				return err
			}
			if already {
				fmt.Fprintln(p.Stderr, "The CA is being replaced already.")
			}
		}
		if detach {
			return nil
		}
		return p.followRotation(ctx, at.Client)
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "Do it. Without this, the command only shows which nodes take part.")
	cmd.Flags().BoolVar(&detach, "detach", false, "Do not wait for the end. sidecar cluster members shows how far it is.")
	return cmd
}

// printParticipants shows which nodes get a certificate.
func (p program) printParticipants(r quorum.Rotation) {
	rows := [][]string{{"NODE", "MEMBER", "ALIVE"}}
	for _, n := range r.Facts.Nodes {
		member := "-"
		if r.Members[n.ID] {
			member = "learner"
		}
		if n.Voter {
			member = "voter"
		}
		rows = append(rows, []string{string(n.ID), member, terminal.YesOrNo(n.Alive)})
	}
	p.Printer().Rows(rows)
	fmt.Fprintln(p.Stdout, "These nodes get a certificate of the new CA, and the voters its key. Remove those that you do not trust\nfirst. To replace the CA, type: sidecar cluster rotate-ca --yes")
}

// rotationPause is the pause between two reads of the progress.
const rotationPause = 500 * time.Millisecond

// followRotation shows the obstacles of the replacement of the CA, until it ended.
func (p program) followRotation(ctx context.Context, client *etcd.Client) error {
	last := ""
	for {
		r, err := quorum.ReadParticipants(ctx, client)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the CA is still being replaced, and the sidecars go on: %w", ctx.Err())
		case err == nil && !r.Active():
			return p.printEnd(r)
		case err == nil:
			if text := rotationText(r); text != last {
				fmt.Fprintln(p.Stderr, text)
				last = text
			}
		} // a member restarts: its answer comes later
		if !backoff.Sleep(ctx, rotationPause) {
			return fmt.Errorf("the CA is still being replaced, and the sidecars go on: %w", ctx.Err())
		}
	}
}

func (p program) printEnd(r quorum.Rotation) error {
	fmt.Fprintf(p.Stdout, "The CA was replaced. Its hash is %s.\nAll tokens were deleted: create new ones for nodes that join.\n", r.Hash)
	if len(r.Lost) > 0 {
		return fmt.Errorf("removed meanwhile: %s, which may have the key of the new CA; type again: sidecar cluster rotate-ca --yes", strings.Join(protocol.NodeNames(r.Lost), ", "))
	}
	return nil
}

// activeRotation returns the replacement that is under way; nil: there is none, or it cannot be read. In that case
// the list of the members shows the problem.
func activeRotation(ctx context.Context, at reach.Etcd) *quorum.Rotation {
	r, err := quorum.ReadParticipants(ctx, at.Client)
	if err != nil || !r.Active() {
		return nil
	}
	return &r
}

// MemberRotation is the progress of one member in a replacement of the CA.
type MemberRotation struct {
	Phase     string    `json:"phase"`
	Since     time.Time `json:"since"` // when the phase began
	Turn      bool      `json:"turn"`  // it restarts its processes now
	Waits     bool      `json:"waits"` // the phase waits for it
	TrustsNew bool      `json:"trustsNew"`
	TrustsOld bool      `json:"trustsOld"`
	HasKey    bool      `json:"hasKey"` // of the new CA
	UsesNew   bool      `json:"usesNew"`
}

func newMemberRotation(r *quorum.Rotation, node protocol.NodeID) *MemberRotation {
	if r == nil {
		return nil
	}
	s := rotation.StateOf(*r)
	out := &MemberRotation{
		Phase: s.Phase, Since: s.Since.UTC(), Turn: s.Turn == string(node) && node != "", Waits: slices.Contains(s.WaitsFor, string(node)),
	}
	for _, n := range r.Facts.Nodes {
		if n.ID == node {
			out.TrustsNew, out.TrustsOld, out.HasKey, out.UsesNew = n.TrustsNew, n.TrustsOld, n.HasKey, n.UsesNew
		}
	}
	return out
}

// rotationText reports the phase, since when, and the nodes that it waits for.
func rotationText(r quorum.Rotation) string {
	s := rotation.StateOf(r)
	text := fmt.Sprintf("The CA is being replaced: %s since %s", s.Phase, s.Since.UTC().Format(time.RFC3339))
	var nodes []string
	for _, id := range s.WaitsFor {
		nodes = append(nodes, waitText(r, protocol.NodeID(id)))
	}
	return text + terminal.Prefixed(", waits for ", strings.Join(nodes, ", ")) + "."
}

// waitText names a node that is waited for, and the remedy if it is off.
func waitText(r quorum.Rotation, id protocol.NodeID) string {
	for _, n := range r.Facts.Nodes {
		if n.ID == id && !n.Alive { // for how long is not known: it may be restarting
			return fmt.Sprintf("%s (not alive: start its sidecar, unless it is restarting; if that node is off for good, sidecar status names the command that removes it)", id)
		}
	}
	if id == r.Turn {
		return string(id) + " (restarts)"
	}
	return string(id)
}
