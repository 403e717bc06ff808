package main

import (
	"fmt"
	"io"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// topic is a help that belongs to several commands.
type topic struct {
	name, short, long string
	flags             func() console.Section // nil: no flags
}

func topics() []topic {
	return []topic{
		{reach.EtcdTopic, "How commands reach etcd", `Commands like sidecar node list read and write the keys in etcd. No sidecar has to
run for them, unless the sidecars run etcd themselves.

An etcd that the sidecars run (--etcd=embedded): type the command on a node that is a
member. It finds the servers and the certificates in the node's data directory: in
--data-dir, or if neither that nor --etcd-servers is set, in ` + lockstep.Defaults().DataDir + `.

An etcd that runs elsewhere: set --etcd-servers and the files of its certificates, as
the sidecars have them. On a node of kubeadm, source /etc/lockstep/env: it sets their variables.

Examples:
  sidecar node list --data-dir=/var/lib/lockstep
  sidecar node list --etcd-servers=https://10.0.0.1:2379 --etcd-cafile=ca.crt \
    --etcd-certfile=client.crt --etcd-keyfile=client.key
  export LOCKSTEP_ETCD_SERVERS=http://10.0.0.1:2379; sidecar node list`, reach.EtcdSection},
		{"environment", "The environment variables", `Each flag has a variable, except those that are about one call, like --yes or
--output: LOCKSTEP_DATA_DIR sets --data-dir, for each command that has that flag. The
flag takes precedence, and an empty variable counts as none. So one file of variables
fits the sidecar and the commands of a node.

The variables for commands that are typed often:
  LOCKSTEP_SERVER        the sidecar that status and wait-ready ask
  LOCKSTEP_DATA_DIR      the data directory of this node, with --etcd=embedded
  LOCKSTEP_ETCD_SERVERS  the servers of an etcd that runs elsewhere

A variable LOCKSTEP_... that belongs to no flag ends sidecar run with an error. Other
commands refuse one that may be meant for their own flags, and warn of another typo.
NO_COLOR turns colours off. COLUMNS is the width of tables that go into a pipe; without
it, their lines are as long as they need.`, nil},
		{"exit-codes", "What the exit codes mean", `The exit codes of all commands:
  0  the command has done what it says
  1  it failed, and stderr has the reason
  2  wrong usage: nothing was done
  3  a wait or a check that has ended: not ready, not confirmed, not clean
  7  sidecar turn: no turn within --wait
  8  sidecar turn: the node does not serve after it, or its turn was not ended

The help of a command says where it differs: sidecar bundle diff has the codes of diff, and
sidecar turn -- COMMAND those of COMMAND.`, nil},
	}
}

func (t topic) print(w io.Writer) {
	s := terminal.HelpScreen(w)
	fmt.Fprintf(w, "%s\n", s.Paragraphs(t.long))
	if t.flags != nil {
		fmt.Fprint(w, "\nFlags:\n")
		s.PrintFlags(w, t.flags().Flags)
	}
}
