package report

// Status is the answer of /status.
type Status struct {
	Node       Node          `json:"node"`
	Ready      Ready         `json:"ready"`
	Reconciler Reconciler    `json:"reconciler"`
	Election   Election      `json:"election"`
	Fleet      Fleet         `json:"fleet"`
	Reconcile  Reconcile     `json:"reconcile"`
	Etcd       Etcd          `json:"etcd"`
	Cluster    Cluster       `json:"cluster"`
	Roles      Roles         `json:"roles"`
	Services   List[Service] `json:"services"`

	Turns     Turns     `json:"turns"`
	Endpoints Endpoints `json:"kubernetesService"`

	Certificates List[Certificate] `json:"certificates"`
	UpgradeReady bool              `json:"upgradeReady"`

	UpgradeObstacles List[Obstacle] `json:"upgradeObstacles"` // empty if UpgradeReady
	UpgradeNotes     List[string]   `json:"upgradeNotes"`     // costs of an upgrade in a fleet of this size
	Warnings         List[Warning]  `json:"warnings"`
}

// Warning is a problem that needs an action.
type Warning struct {
	Reason  string    `json:"reason"`  // empty: none
	Subject string    `json:"subject"` // the node or object that it is about; empty: this node
	Message string    `json:"message"`
	Since   Timestamp `json:"since"`
	// Severity is down, risk or note: lists of warnings are in this order. Older sidecars report none.
	Severity string `json:"severity"`
}

// Obstacle is why the next upgrade must not start.
type Obstacle struct {
	Reason  string `json:"reason"`
	Node    string `json:"node"` // empty: no single node
	Message string `json:"message"`
}

// Node describes this node and the programs that it runs.
type Node struct {
	ID                       string       `json:"id"`
	Release                  string       `json:"release"`
	Version                  string       `json:"version"`
	MinimumReconcilerRelease string       `json:"minimumReconcilerRelease"` // M
	MinimumApiserverRelease  string       `json:"minimumApiserverRelease"`  // A
	Roles                    List[string] `json:"roles"`
	RegisteredRevision       int64        `json:"registeredRevision"`
	Address                  string       `json:"address"` // of the HTTP API, for other machines (--advertise-url)
	Bundle                   string       `json:"bundle"`  // its name
	BundleSource             string       `json:"bundleSource"`
	BundleDigest             string       `json:"bundleDigest"`
	BundleProblem            string       `json:"bundleProblem"` // why the bundle in its directory was rejected; empty: it is in use
}

// Reconciler is the reconciler status. It is always an object; Kind reports whether there is a status at all.
type Reconciler struct {
	Kind                     string    `json:"kind"` // unknown, absent, corrupt, present
	State                    string    `json:"state"`
	Version                  string    `json:"version"`
	MinimumCompatibleRelease string    `json:"minimumCompatibleRelease"`
	Leader                   string    `json:"leader"`
	Epoch                    int64     `json:"epoch"`
	DrainedEpoch             int64     `json:"drainedEpoch"`
	ModRevision              int64     `json:"modRevision"`
	ContentRelease           string    `json:"contentRelease"`
	ContentEpoch             int64     `json:"contentEpoch"`
	Bundle                   string    `json:"bundle"` // its name; empty: unknown
	BundleDigest             string    `json:"bundleDigest"`
	UpdatedAt                Timestamp `json:"updatedAt"`
	Problem                  string    `json:"problem"`
	// Replacement of the bundle by another one, as people requested; null: none.
	Replacement *Replacement `json:"replacement"`
	// Rollback that is under way; null: none.
	Rollback *Rollback `json:"rollback"`
}

// Replacement is a user's request that one bundle replace another.
type Replacement struct {
	From    string    `json:"from"`
	To      string    `json:"to"`
	Since   Timestamp `json:"since"`
	Message string    `json:"message"` // why it is not done yet
}

// Rollback is a rollback that is under way.
type Rollback struct {
	To       string       `json:"to"`
	By       string       `json:"by"` // who asked for it; empty: unknown
	Since    Timestamp    `json:"since"`
	Until    Timestamp    `json:"until"`
	Blockers List[string] `json:"blockers"` // the nodes that must go back before the objects
	Message  string       `json:"message"`  // why it is not done yet
}

// Election is this sidecar's part in the election.
type Election struct {
	State    string    `json:"state"`
	Since    Timestamp `json:"since"` // of State
	Leader   string    `json:"leader"`
	Epoch    int64     `json:"epoch"`
	Eligible bool      `json:"eligible"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Step     Step      `json:"step"`
}

// Step is the leader's newest step; Kind is empty on a node that does not lead.
type Step struct {
	Kind    string `json:"kind"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Etcd is the connection to etcd.
type Etcd struct {
	Connected bool `json:"connected"` // the last request was answered, or the watch is open
	// LastContact is when etcd last answered. It may be some seconds late while Connected is true: a new value alone is
	// no reason to publish.
	LastContact Timestamp    `json:"lastContact"`
	Revision    int64        `json:"revision"` // the newest one seen
	Store       string       `json:"store"`    // the store ID (docs/protocol.md#store-id); empty: not seen
	Endpoints   List[string] `json:"endpoints"`
	// Problem is why the servers do not answer or refuse writes, with the remedy; empty: they are healthy, or it is not
	// known.
	Problem string `json:"problem"`
	// Warnings are about the servers, such as known faults of their version (docs/upstream.md#etcd-known-faults).
	Warnings List[string] `json:"warnings"`
}

// Certificate is a certificate that this sidecar uses.
type Certificate struct {
	Use     string    `json:"use"` // etcd-client, etcd-ca, kubeconfig-client, kubeconfig-ca, serving, client-ca
	File    string    `json:"file"`
	Expires Timestamp `json:"expires"` // of several in the file, the first; null: it cannot be read
	Problem string    `json:"problem"` // why it cannot be read; empty: it can
}

// Leader is the answer of /leader.
type Leader struct {
	Leading bool   `json:"leading"`
	Node    string `json:"node"`
	Leader  string `json:"leader"` // empty: none, or unknown
	Epoch   int64  `json:"epoch"`  // of Leader
}

// Entry is an entry of /history, and of sidecar history -o json.
type Entry struct {
	Time    Timestamp `json:"time"`
	Until   Timestamp `json:"until"` // null: it goes on
	Kind    string    `json:"kind"`
	Node    string    `json:"node"` // empty: it is about the fleet
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int       `json:"count"`
	// Spans are the times of an entry that ended and began again: the newest ones of Count.
	Spans List[Span] `json:"spans"`
}

// Span is one of the times of an Entry.
type Span struct {
	Time  Timestamp `json:"time"`
	Until Timestamp `json:"until"` // null: it goes on
}
