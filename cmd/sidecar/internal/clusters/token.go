package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/protocol"
)

func (p program) tokenCommand() *cobra.Command {
	return console.ParentOf(&cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke the tokens with which other nodes join",
	}, p.tokenCreateCommand(), p.tokenListCommand(), p.tokenRevokeCommand())
}

// TokenReport is the output of `token create`.
type TokenReport struct {
	Token string `json:"token"`
	// Node and Address restrict the token to a node; empty: any.
	Node    string    `json:"node"`
	Address string    `json:"address"`
	Command string    `json:"command"`
	Expires time.Time `json:"expires"`
}

func (p program) tokenCreateCommand() *cobra.Command {
	output := console.NewChoice("text", "json")
	spec := token.Spec{TTL: time.Hour, Uses: 1}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a token, and print what to type on the other machine",
		Long: `Create a token, and print what to type on the other machine.

A user who has the token can join the cluster until it expires or is used. A node that
has joined reads and writes everything in etcd: with a kube-apiserver on it, every Secret.
When it votes, it also has the key of the cluster's CA, and can sign certificates; one that
does not can make itself a voter in etcd. Neither token revoke nor cluster remove takes that
back: after a node that you do not trust, always replace the CA, with sidecar cluster
rotate-ca. So keep the token secret. It is shown only once. With --node it is refused for
any other node; without, the first who has it can use it.

The printed command has the token in its environment: ps shows the command line of a
process to every user of the machine.`,
		Args: console.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := spec.Validate(); err != nil {
				return console.Usagef("%w; see %s --help", err, cmd.CommandPath())
			}
			return nil
		},
	}
	reach.WithEtcd(cmd, func(ctx context.Context, at reach.Etcd, _ []string) error {
		report, err := createToken(ctx, at, spec)
		if err != nil {
			return err
		}
		return p.printToken(report, spec, output.Value)
	})
	cmd.Flags().StringVar((*string)(&spec.Node), "node", "", "The `ID` of the only node that may join with it. If empty, any node may.")
	cmd.Flags().StringVar(&spec.Address, "address", "", "The only `IP` address at which that node may join, its --node-address. If empty, any.")
	cmd.Flags().DurationVar(&spec.TTL, "ttl", spec.TTL, "How long the token is valid, at most 720h (30 days).")
	cmd.Flags().IntVar(&spec.Uses, "uses", spec.Uses, fmt.Sprintf("How many nodes may join with it, at most %d.", token.MaxUses))
	console.BindOutput(cmd, &output)
	return cmd
}

func createToken(ctx context.Context, at reach.Etcd, spec token.Spec) (TokenReport, error) {
	record, err := quorum.ReadCluster(ctx, at.Client)
	if errors.Is(err, quorum.ErrNoCluster) {
		if prefix := at.Prefix(); prefix != lockstep.Defaults().EtcdPrefix {
			err = fmt.Errorf("%w, or not with --etcd-prefix=%s", err, prefix)
		}
		return TokenReport{}, fmt.Errorf("%w: run this command on a node that is a member, and set --data-dir if it is not %s", err, lockstep.Defaults().DataDir)
	}
	if err != nil {
		return TokenReport{}, err
	}
	join, err := joinURL(ctx, at)
	if err != nil {
		return TokenReport{}, err
	}
	spec.CA = record.CA
	if err := quorum.NotRotating(ctx, at.Client); err != nil {
		return TokenReport{}, err
	}
	created, stored, err := token.Create(ctx, at.Client, spec)
	if err != nil {
		return TokenReport{}, err
	}
	return TokenReport{
		Token: created.Text(), Node: string(stored.Node), Address: stored.Address,
		Command: joinCommand(at, join, created, stored), Expires: stored.Expires,
	}, nil
}

// joinCommand returns the command to type on the machine that joins. The token is in the environment: every user
// of a machine can read the command lines there.
func joinCommand(at reach.Etcd, join string, created token.Token, stored token.Stored) string {
	command := []string{console.EnvName("token") + "=" + created.Text(), "sidecar run --etcd=embedded"}
	if prefix := at.Prefix(); prefix != lockstep.Defaults().EtcdPrefix {
		command = append(command, "--etcd-prefix="+prefix)
	}
	if stored.Node != "" {
		command = append(command, "--node-id="+string(stored.Node))
	}
	if stored.Address != "" {
		command = append(command, "--node-address="+stored.Address)
	}
	return strings.Join(append(command, "--join="+join), " ")
}

// joinURL returns a URL at which another node can join: at this node, or at any healthy member.
func joinURL(ctx context.Context, at reach.Etcd) (string, error) {
	views, err := quorum.List(ctx, at.Client)
	if err != nil {
		return "", err
	}
	found := ""
	for _, v := range views {
		switch {
		case v.JoinURL == "":
		case slices.Contains(at.Config.Endpoints, v.ClientURL):
			return v.JoinURL, nil
		case found == "" || v.Healthy && !v.Learner:
			found = v.JoinURL
		}
	}
	if found == "" {
		return "", errors.New("no member says where it answers joins: their records in etcd are missing")
	}
	return found, nil
}

func (p program) printToken(r TokenReport, spec token.Spec, form string) error {
	if form == "json" {
		return p.PrintJSON(r)
	}
	fmt.Fprintf(p.Stdout, `Token for %s, valid for %s (until %s):

  %s

On the machine that joins, type this, with the other flags that it needs (such as
--kubeconfig and --bundle):

  %s

In a unit or a manifest, use --token-file=FILE instead, and delete the file when the
node has joined.
`, tokenFor(spec), spec.TTL, r.Expires.UTC().Format(time.RFC3339), r.Token, r.Command)
	if spec.Node == "" {
		fmt.Fprint(p.Stdout, "The first who has this token can use it: with --node=ID, only that node can.\n")
	}
	return nil
}

// tokenFor names the nodes that may join with a token.
func tokenFor(spec token.Spec) string {
	if spec.Node != "" {
		return "node " + boundTo(spec.Node, spec.Address)
	}
	return terminal.Count(spec.Uses, "node")
}

// storedReport is a token in the output of `token list`.
type storedReport struct {
	ID       string    `json:"id"`
	State    string    `json:"state"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
	Uses     int       `json:"uses"`
	UsesLeft int       `json:"usesLeft"`
	UsedBy   []string  `json:"usedBy"`
	// Node and Address restrict the token to a node; empty: any.
	Node    string `json:"node"`
	Address string `json:"address"`
}

func (p program) tokenListCommand() *cobra.Command {
	output := console.NewChoice("table", "json")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "list",
		Short: "List the tokens, and the nodes that have used them",
		Args:  console.NoArgs,
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		all, err := token.List(ctx, client.Client)
		if err != nil {
			return err
		}
		return p.printTokens(all, output.Value)
	})
	console.BindOutput(cmd, &output)
	return cmd
}

func (p program) printTokens(all []token.Stored, form string) error {
	reports := []storedReport{}
	rows := [][]string{{"ID", "STATE", "USES LEFT", "FOR", "EXPIRES", "USED BY"}}
	for _, s := range all {
		r := storedReport{
			ID: s.ID, State: string(s.State(p.Now())), Created: s.Created, Expires: s.Expires,
			Uses: s.Uses, UsesLeft: s.UsesLeft(), UsedBy: usersOf(s),
			Node: string(s.Node), Address: s.Address,
		}
		reports = append(reports, r)
		rows = append(rows, []string{
			r.ID, r.State, strconv.Itoa(r.UsesLeft) + " of " + strconv.Itoa(r.Uses), boundTo(s.Node, s.Address),
			r.Expires.UTC().Format(time.RFC3339),
			terminal.OrDash(strings.Join(r.UsedBy, ", ")),
		})
	}
	return p.PrintRows(form, reports, rows)
}

// usersOf names the nodes that used a token.
func usersOf(s token.Stored) []string {
	out := make([]string, 0, len(s.UsedBy))
	for _, u := range s.UsedBy {
		out = append(out, string(u.Node))
	}
	return out
}

// boundTo names the node that a token is for, and the address if it is for that alone.
func boundTo(node protocol.NodeID, address string) string {
	if address != "" {
		return string(node) + " at " + address
	}
	return cmp.Or(string(node), "any node")
}

// tokenID returns the ID in the text that a person typed: the ID itself, or a whole token.
func tokenID(text string) (string, error) {
	id := token.ParseID(text)
	if whole, err := token.Parse(text); err == nil {
		id = whole.ID
	}
	if id == "" {
		return "", console.Usagef("%.20q is not the ID of a token; sidecar cluster token list shows them", text)
	}
	return id, nil
}

func (p program) tokenRevokeCommand() *cobra.Command {
	id := ""
	return reach.WithEtcd(&cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token, by the ID that token list shows",
		Long: `Revoke a token, by the ID that token list shows. No other node can join with it.

A node that has joined with it stays a member. If you do not trust that node, revoking
and removing are not enough: it has a certificate, and the key of the cluster's CA if it
has voted. sidecar cluster rotate-ca takes that back.`,
		Args: console.OneArg("ID"),
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			id, err = tokenID(args[0])
			return err
		},
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		if err := token.Revoke(ctx, client.Client, id); err != nil {
			if errors.Is(err, token.ErrUnknown) {
				return fmt.Errorf("there is no token %s; sidecar cluster token list shows them", id)
			}
			return err
		}
		all, err := token.List(ctx, client.Client)
		if err != nil {
			return fmt.Errorf("token %s revoked; which nodes have used it is not known: %w", id, err)
		}
		i := slices.IndexFunc(all, func(s token.Stored) bool { return s.ID == id })
		if i < 0 || len(all[i].UsedBy) == 0 {
			fmt.Fprintf(p.Stdout, "token %s revoked; no node has used it\n", id)
			return nil
		}
		fmt.Fprintf(p.Stdout, "token %s revoked; the nodes that have used it stay members: %s\n%s", id, strings.Join(usersOf(all[i]), ", "), keepsAccess)
		return nil
	})
}
