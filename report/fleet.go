package report

// Fleet is all node records, and the nodes that the leader waits for.
type Fleet struct {
	Revision   int64           `json:"revision"`
	MinRelease string          `json:"minRelease"`
	MaxRelease string          `json:"maxRelease"`
	Nodes      List[FleetNode] `json:"nodes"`
	Blockers   List[Blocker]   `json:"blockers"`
}

// Record is one node record with its presence. Release and Version are empty if the record is corrupt; Problem gives
// the reason and the remedy.
type Record struct {
	ID           string       `json:"id"`
	Release      string       `json:"release"`
	Version      string       `json:"version"`
	Roles        List[string] `json:"roles"`
	Ready        bool         `json:"ready"`
	Reason       string       `json:"reason"`
	Alive        bool         `json:"alive"`
	Election     string       `json:"election"`
	Problem      string       `json:"problem"`
	Address      string       `json:"address"`
	Bundle       string       `json:"bundle"` // its name; empty: unknown
	BundleDigest string       `json:"bundleDigest"`
	Runs
	Ephemeral bool `json:"ephemeral"` // it is deleted when its node stopped or expired
	Standing
	// Cordon is why the node is out of service; null: it is in service.
	Cordon *Cordon `json:"cordon"`
}

// Runs lists the versions that a node reports to run, while it is alive.
type Runs struct {
	ApiserverVersion string `json:"apiserverVersion"` // empty: unknown
	ServicesDigest   string `json:"servicesDigest"`   // empty: it runs none
}

// FleetNode is a record in /status.
type FleetNode struct {
	Record
	Blocks   bool          `json:"blocks"`   // the leader waits for it
	Host     string        `json:"host"`     // of the sidecar that is alive
	Warnings List[Warning] `json:"warnings"` // that the node reports

	// Since when this sidecar has seen it alive or not, and serve or not; null: not known.
	AliveSince  Timestamp `json:"aliveSince"`
	ServesSince Timestamp `json:"servesSince"`
	// ExpiresAt is when leaders ignore or delete its record, as far as this sidecar knows; null: it is alive, or does
	// not expire.
	ExpiresAt Timestamp `json:"expiresAt"`
}

// Blocker is a node that the leader waits for, with the remedy.
type Blocker struct {
	ID      string `json:"id"`
	Release string `json:"release"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Absence
}

// Absence is how long a node has been unreachable, as this leader counts it (docs/protocol-nodes.md#dead-nodes).
type Absence struct {
	GoneSince    Timestamp `json:"goneSince"`    // null: it is alive
	PassedOverAt Timestamp `json:"passedOverAt"` // when the leader no longer waits for the node; null: never
}

// Ready is the gate's verdict.
type Ready struct {
	Ready   bool      `json:"ready"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   Timestamp `json:"since"`
	// StaleSince is since when the verdict rests on the last known facts (docs/protocol-nodes.md#gate); null: it is up to date.
	StaleSince Timestamp `json:"staleSince"`
	// Override is the one in force; null: none.
	Override *Override `json:"override"`
	Standing
	ServesSince Timestamp `json:"servesSince"` // when /readyz last changed
}

// Standing reports whether a node serves: the answer of its /readyz.
type Standing struct {
	Serves        bool   `json:"serves"`
	ServesReason  string `json:"servesReason"`  // Ready, Overridden, or why it does not; empty: it is not alive
	ServesMessage string `json:"servesMessage"` // the same, for people; empty: not known
}

// Override is until when this node serves regardless of its gate, and why.
type Override struct {
	Until   Timestamp `json:"until"`
	Message string    `json:"message"`
}

// Cordon is since when a node is out of service, and until when (null: until people end it).
type Cordon struct {
	Since   Timestamp `json:"since"`
	Until   Timestamp `json:"until"`
	Message string    `json:"message"`
	By      string    `json:"by"`
	Turn    bool      `json:"turn"` // it belongs to a turn, which ends it
}

// Turns lists the nodes that hold a turn, and the nodes that wait (docs/protocol-nodes.md#turns).
type Turns struct {
	Limit   int           `json:"limit"` // how many nodes may hold one
	Held    List[Turn]    `json:"held"`
	Waiting List[Waiting] `json:"waiting"` // the first one first
}

// Turn is the turn of a node.
type Turn struct {
	Node    string    `json:"node"`
	Kind    string    `json:"kind"` // command, reboot, people, services or fleetlock
	Since   Timestamp `json:"since"`
	Until   Timestamp `json:"until"` // its limit; null: none
	Overdue bool      `json:"overdue"`
	Command string    `json:"command"` // empty: none
	Message string    `json:"message"` // why, in people's words
	By      string    `json:"by"`
	Work    string    `json:"work"`    // UnderWay, Failed or Done
	Problem string    `json:"problem"` // why its work failed; empty: not known, or it did not
	Remedy  string    `json:"remedy"`  // the command that helps
}

// Waiting is a node that waits for a turn.
type Waiting struct {
	Node     string    `json:"node"`
	Since    Timestamp `json:"since"`
	Message  string    `json:"message"` // the purpose, in people's words
	By       string    `json:"by"`
	WaitsFor string    `json:"waitsFor"` // the node; empty: no single one
	Reason   string    `json:"reason"`   // why it waits; empty: it is about to get the turn
}
