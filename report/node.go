package report

// Roles are the roles by which a sidecar starts and stops services (docs/protocol-nodes.md#services). The zero value: it does
// not know them yet.
type Roles struct {
	Local  List[string] `json:"local"`
	Source string       `json:"source"` // cluster or disk; empty: they are not known yet
	Since  Timestamp    `json:"since"`  // when the sidecar learned them
}

// Phase is the stage of a service: Waiting, Starting, Running, BackOff, Stopping or Stopped (package service has the
// constants).
type Phase string

// Service is a program that this node runs for one of its roles (docs/roles.md).
type Service struct {
	Name     string    `json:"name"`
	Role     string    `json:"role"`
	Driver   string    `json:"driver"` // process, systemdUnit or staticPod
	Phase    Phase     `json:"state"`
	Ready    bool      `json:"ready"`    // the instance that runs now is ready
	Since    Timestamp `json:"since"`    // when Phase or Ready last changed
	Restarts int       `json:"restarts"` // how often it was started again after it ended by itself
	LastExit string    `json:"lastExit"` // why its last instance ended; empty: none ended
	Problem  string    `json:"problem"`  // of the last probe, or why it could not be stopped; empty: none
	// LastLines are the newest of its output, the oldest first. Empty while it is ready: what a healthy service writes
	// is for its log, and all local users can read /status.
	LastLines List[string] `json:"lastLines"`

	Required bool      `json:"required"` // the gate waits until it is ready
	File     string    `json:"file"`     // of its definition
	Changed  Timestamp `json:"changed"`  // when that file was written
}

// Endpoints are the addresses of the Service kubernetes, and the reason for them
// (docs/protocol-endpoints.md#kubernetes-service). The zero value without --kubernetes-service.
type Endpoints struct {
	Enabled   bool                `json:"enabled"` // --kubernetes-service
	Reason    string              `json:"reason"`
	Message   string              `json:"message"`
	Since     Timestamp           `json:"since"`    // when Reason last changed
	Problem   string              `json:"problem"`  // why this sidecar cannot read or write the Service; empty: it can
	Revision  int64               `json:"revision"` // of etcd, at which its addresses were ready; 0: Lockstep did not write them
	Addresses List[string]        `json:"addresses"`
	Nodes     List[EndpointsNode] `json:"nodes"`
}

// EndpointsNode is a controller, and whether its addresses belong into the Service.
type EndpointsNode struct {
	ID        string       `json:"id"`
	Addresses List[string] `json:"addresses"`
	Port      int          `json:"port"`
	Serves    bool         `json:"serves"`
	Reason    string       `json:"reason"`
	Message   string       `json:"message"`
}

// Cluster describes how this sidecar joined its etcd cluster, and the members that the sidecars run themselves
// (docs/clusters.md).
type Cluster struct {
	State       string           `json:"state"` // New, ..., Running, Failed; empty: not known
	Since       Timestamp        `json:"since"` // when State last changed
	Transitions List[Transition] `json:"transitions"`
	// Error is why State is Failed, the reason of its wait, or why this node's member cannot be used; empty: none.
	Error     string       `json:"error"`
	Members   List[Member] `json:"members"`
	Rotation  Rotation     `json:"caRotation"`
	Snapshots Snapshots    `json:"snapshots"`
}

// Transition is a change of a cluster's state.
type Transition struct {
	From string    `json:"from"`
	To   string    `json:"to"`
	At   Timestamp `json:"at"`
}

// Member is an etcd member that a sidecar runs.
type Member struct {
	ID      string `json:"id"`   // of etcd, in hexadecimal
	Node    string `json:"node"` // the node ID; empty: not known
	Address string `json:"address"`
	Learner bool   `json:"learner"` // it is not a voter yet
	Leader  bool   `json:"leader"`  // it leads the etcd cluster
	Healthy bool   `json:"healthy"` // it answered this sidecar, and knows a leader
	// Problem is why it is not healthy; empty: it is, or nothing is known of it.
	Problem string `json:"problem"`
	// Since is when this sidecar first found that it is not healthy; null: it is.
	Since Timestamp `json:"since"`
	// DBSize is the size of its database, rounded down to a hundredth of Quota, so that the
	// value rarely changes. Both are in bytes; a Quota of 0: not known.
	DBSize int64 `json:"dbSizeBytes"`
	Quota  int64 `json:"dbQuotaBytes"`
}

// Rotation is a replacement of the CA of an etcd that the sidecars run (docs/protocol-membership.md#rotation).
type Rotation struct {
	Phase    string       `json:"phase"` // empty: none ever began; Requested, Trusting, Issuing, Dropping, or Ended
	Since    Timestamp    `json:"since"`
	Turn     string       `json:"turn"`     // the node that restarts the programs that use the CA; empty: none
	WaitsFor List[string] `json:"waitsFor"` // the nodes whose part of the phase is missing
	Lost     List[string] `json:"lost"`     // removed nodes that may know the new CA's key
	Problem  string       `json:"problem"`  // why this node's part is missing
}

// Snapshots are snapshots of etcd that a node saves by itself (docs/clusters.md#scheduled).
type Snapshots struct {
	EverySeconds float64   `json:"everySeconds"` // 0: it saves none
	Kept         int       `json:"kept"`         // how many exist
	Newest       Timestamp `json:"newest"`       // null: none exists
	File         string    `json:"file"`         // the newest one
	Problem      string    `json:"problem"`      // why the last attempt failed; empty: it did not
}
