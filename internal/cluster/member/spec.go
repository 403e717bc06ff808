package member

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// The defaults for zero fields of a Spec
// (docs/adr/0013-times-of-the-embedded-etcd.md).
const (
	DefaultHeartbeat = 175 * time.Millisecond
	DefaultElection  = 875 * time.Millisecond
	// DefaultQuotaBytes is the largest that etcd suggests: the data of a kube-apiserver may be in it
	// too. At the limit etcd refuses writes. A small database needs no more for a large quota.
	DefaultQuotaBytes = 8 << 30
	// MinQuotaBytes is the smallest quota that people may set.
	MinQuotaBytes = 16 << 20
	// NoQuota is a quota that is never reached.
	NoQuota = -1
	// DefaultCompaction is how long old revisions are kept. A watch that was interrupted
	// for longer lists again.
	DefaultCompaction = time.Hour
	// DefaultSnapshotCount is after how many entries etcd writes a snapshot and drops
	// the log before it.
	DefaultSnapshotCount = 5000
	// DefaultCommit is how long etcd collects writes for its database. They are in its log
	// before that, and a start after a crash repeats them.
	DefaultCommit = 500 * time.Millisecond
	// DefaultMeasures is the pause between two messages with the measures of etcd. A
	// message costs some milliseconds of CPU time (BenchmarkMeasured).
	DefaultMeasures = 10 * time.Second
	// MaxLearners must be the same on all members of a cluster.
	MaxLearners = 2
)

// Spec configures a member. It goes to the child as JSON. The files and the directory
// must be absolute paths.
type Spec struct {
	Dir  string // of etcd's data; etcd creates it
	Name string // of the member; the node ID
	// PeerURL and ClientURL are https, with the node's address. The member listens
	// there, and others reach it there.
	PeerURL, ClientURL string

	// InitialCluster is all members, this one too: NAME=PEERURL,... It counts only when
	// Dir is empty, as do Existing and Token.
	InitialCluster string
	Existing       bool   // the member joins a cluster that runs
	Token          string // of the cluster: random, so that two clusters never share an ID

	// CAFile, CertFile and KeyFile are this node's, for peers and clients, as server and
	// as client. Certificate and key are read at each handshake.
	CAFile, CertFile, KeyFile string

	Heartbeat  time.Duration // of raft; 0: DefaultHeartbeat
	Election   time.Duration // at least five heartbeats; 0: DefaultElection
	QuotaBytes int64         // of the database; 0: DefaultQuotaBytes, negative: none
	Measures   time.Duration // the pause between two messages with Measures; 0: DefaultMeasures

	// Patience is how long a learner with data may take to become ready. Its process ends
	// then, and another one goes on with the data. 0: as long as etcd takes.
	//
	// A new learner asks the leader to write its name, and is ready when that comes back in
	// the log. It gets the data as a snapshot if the log is longer than a hundred entries.
	// The snapshot ends all connections to the other members, and so loses the question. Or
	// the snapshot contains the answer, and etcd does not notice it there. etcd asks again
	// after seven seconds.
	Patience time.Duration

	Verbose bool // etcd logs its work too, not only problems

	// Snapshot, if not nil, is the source from which the child makes Dir, which must not exist. The
	// child ends then, without running the member.
	Snapshot *Snapshot
}

// Snapshot is a file with a whole store.
type Snapshot struct {
	File string
	// Bump is the number of revisions to leave out, of which none can be read.
	Bump uint64
}

// WithDefaults returns the Spec with the defaults in place of zeros.
func (s Spec) WithDefaults() Spec {
	s.Heartbeat = cmp.Or(s.Heartbeat, DefaultHeartbeat)
	s.Election = cmp.Or(s.Election, DefaultElection)
	s.QuotaBytes = cmp.Or(s.QuotaBytes, DefaultQuotaBytes)
	s.Measures = cmp.Or(s.Measures, DefaultMeasures)
	return s
}

// Validate returns an error that names a missing or invalid field.
func (s Spec) Validate() error {
	required := []struct{ name, value string }{
		{"Dir", s.Dir}, {"Name", s.Name}, {"PeerURL", s.PeerURL}, {"ClientURL", s.ClientURL}, {"InitialCluster", s.InitialCluster},
		{"Token", s.Token}, {"CAFile", s.CAFile}, {"CertFile", s.CertFile}, {"KeyFile", s.KeyFile},
	}
	var errs []error
	for _, r := range required {
		if r.value == "" {
			errs = append(errs, fmt.Errorf("etcd member: %s is required", r.name))
		}
	}
	for _, u := range []string{s.PeerURL, s.ClientURL} {
		if parsed, err := url.Parse(u); err != nil {
			errs = append(errs, fmt.Errorf("etcd member: %w", err))
		} else if u != "" && (parsed.Scheme != "https" || parsed.Port() == "" || strings.Trim(parsed.Path, "/") != "") {
			errs = append(errs, fmt.Errorf("etcd member: URL %q: want https://ADDRESS:PORT", u))
		}
	}
	return errors.Join(errs...)
}
