package main

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
	"github.com/lockstep-dev/lockstep/cluster/quorum"
	"github.com/lockstep-dev/lockstep/cluster/token"
)

func (p program) clusterTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke the tokens with which other nodes join",
		Args:  cobra.ArbitraryArgs,
		RunE:  helpOrUnknown,
	}
	cmd.AddCommand(p.tokenCreateCommand(), p.tokenListCommand(), p.tokenRevokeCommand())
	return cmd
}

// tokenReport is the output of `token create`.
type tokenReport struct {
	Token   string    `json:"token"`
	Command string    `json:"command"`
	Expires time.Time `json:"expires"`
}

func (p program) tokenCreateCommand() *cobra.Command {
	output := choice{value: "text", of: []string{"text", "json"}}
	spec := token.Spec{TTL: time.Hour, Uses: 1}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a token, and print what to type on the other machine",
		Long: `Create a token, and print what to type on the other machine.

A user who has the token can join the cluster until it expires or is used, and read
everything in it: keep it secret. It is shown only once.`,
		Args: noArgs,
	}
	withEtcd(cmd, func(ctx context.Context, at etcdClient, _ []string) error {
		if err := spec.Validate(); err != nil {
			return usagef("%w; see %s --help", err, cmd.CommandPath())
		}
		report, err := createToken(ctx, at, spec)
		if err != nil {
			return err
		}
		return p.printToken(report, spec, output.value)
	})
	cmd.Flags().DurationVar(&spec.TTL, "ttl", spec.TTL, "How long the token is valid, at most 720h (30 days).")
	cmd.Flags().IntVar(&spec.Uses, "uses", spec.Uses, fmt.Sprintf("How many nodes may join with it, at most %d.", token.MaxUses))
	cmd.Flags().VarP(&output, "output", "o", "Output format: "+output.options()+".")
	complete(cmd, "output", &output)
	return cmd
}

func createToken(ctx context.Context, at etcdClient, spec token.Spec) (tokenReport, error) {
	record, err := quorum.ReadCluster(ctx, at.Client)
	if errors.Is(err, quorum.ErrNoCluster) {
		if prefix := at.Prefix(); prefix != lockstep.Defaults().EtcdPrefix {
			err = fmt.Errorf("%w, or not with --etcd-prefix=%s", err, prefix)
		}
		return tokenReport{}, fmt.Errorf("%w: run this command on a node that is a member, and set --data-dir if it is not %s", err, lockstep.Defaults().DataDir)
	}
	if err != nil {
		return tokenReport{}, err
	}
	join, err := joinURL(ctx, at)
	if err != nil {
		return tokenReport{}, err
	}
	spec.CA = record.CA
	created, stored, err := token.Create(ctx, at.Client, spec)
	if err != nil {
		return tokenReport{}, err
	}
	command := []string{"sidecar run --etcd=embedded"}
	if prefix := at.Prefix(); prefix != lockstep.Defaults().EtcdPrefix {
		command = append(command, "--etcd-prefix="+prefix)
	}
	command = append(command, "--join="+join, "--token="+created.Text())
	return tokenReport{Token: created.Text(), Command: strings.Join(command, " "), Expires: stored.Expires}, nil
}

// joinURL returns where another node can join: at this node, or at any member that is
// healthy.
func joinURL(ctx context.Context, at etcdClient) (string, error) {
	views, err := quorum.List(ctx, at.Client)
	if err != nil {
		return "", err
	}
	found := ""
	for _, v := range views {
		switch {
		case v.JoinURL == "":
		case slices.Contains(at.cfg.Endpoints, v.ClientURL):
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

func (p program) printToken(r tokenReport, spec token.Spec, form string) error {
	if form == "json" {
		return p.printJSON(r)
	}
	nodes := "1 node"
	if spec.Uses > 1 {
		nodes = fmt.Sprintf("%d nodes", spec.Uses)
	}
	fmt.Fprintf(p.stdout, `Token for %s, valid for %s (until %s):

  %s

On the machine that joins, type this, with the other flags that it needs (such as
--kubeconfig and --bundle):

  %s
`, nodes, spec.TTL, r.Expires.UTC().Format(time.RFC3339), r.Token, r.Command)
	return nil
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
}

func (p program) tokenListCommand() *cobra.Command {
	output := choice{value: "table", of: []string{"table", "json"}}
	cmd := withEtcd(&cobra.Command{
		Use:   "list",
		Short: "List the tokens, and the nodes that have used them",
		Args:  noArgs,
	}, func(ctx context.Context, client etcdClient, _ []string) error {
		all, err := token.List(ctx, client.Client)
		if err != nil {
			return err
		}
		return p.printTokens(all, output.value)
	})
	cmd.Flags().VarP(&output, "output", "o", "Output format: "+output.options()+".")
	complete(cmd, "output", &output)
	return cmd
}

func (p program) printTokens(all []token.Stored, form string) error {
	reports := []storedReport{}
	rows := [][]string{{"ID", "STATE", "USES LEFT", "EXPIRES", "USED BY"}}
	for _, s := range all {
		r := storedReport{
			ID: s.ID, State: string(s.State(p.now())), Created: s.Created, Expires: s.Expires,
			Uses: s.Uses, UsesLeft: s.UsesLeft(), UsedBy: []string{},
		}
		for _, u := range s.UsedBy {
			r.UsedBy = append(r.UsedBy, string(u.Node))
		}
		reports = append(reports, r)
		rows = append(rows, []string{
			r.ID, r.State, strconv.Itoa(r.UsesLeft) + " of " + strconv.Itoa(r.Uses), r.Expires.UTC().Format(time.RFC3339),
			cmp.Or(strings.Join(r.UsedBy, ", "), "-"),
		})
	}
	if form == "json" {
		return p.printJSON(reports)
	}
	table{w: p.stdout, screen: p.screen()}.rows(rows)
	return nil
}

func (p program) tokenRevokeCommand() *cobra.Command {
	return withEtcd(&cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token, by the ID that token list shows",
		Args:  oneArg("ID"),
	}, func(ctx context.Context, client etcdClient, args []string) error {
		id := token.ParseID(args[0])
		if whole, err := token.Parse(args[0]); err == nil {
			id = whole.ID
		}
		if id == "" {
			return usagef("%.20q is not the ID of a token; sidecar cluster token list shows them", args[0])
		}
		if err := token.Revoke(ctx, client.Client, id); err != nil {
			if errors.Is(err, token.ErrUnknown) {
				return fmt.Errorf("there is no token %s; sidecar cluster token list shows them", id)
			}
			return err
		}
		fmt.Fprintf(p.stdout, "token %s revoked; nodes that are members stay members\n", id)
		return nil
	})
}
