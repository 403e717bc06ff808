package model

// safeguard is a part of the protocol that a search can turn off. A search
// without it shows that the safeguard is needed, and that the invariants notice.
type safeguard uint64

// The safeguards.
const (
	// A gate reads the status only after its registration
	// (docs/protocol-nodes.md#registration).
	registerFirst safeguard = 1 << iota
	// A restriction is committed only if no record was modified since the
	// snapshot (docs/protocol.md#rule-wait-for-nodes).
	nodesGuard
	// Leaders decide from a snapshot, not from the events of a watch
	// (docs/protocol.md#snapshots).
	snapshot
	// A status is committed only while the leader's key exists.
	leaderGuard
	// A leader's snapshot confirms its leadership (docs/protocol.md#sessions).
	confirmed
	// A restricted status fits the objects before and after the change.
	intersection
	// Requests to the API carry UID and resourceVersion, and no request overwrites
	// a newer stamp (docs/protocol-objects.md#stale-writes).
	preconditions
	// A status that was lost does not mean that the cluster is new
	// (docs/protocol.md#rule-rebuild-status).
	lostStatus
	// A mark contains whether a first reconciliation was ever finished
	// (docs/protocol-objects.md#mark).
	firstDone
	// Other content of the same release gets another content epoch.
	newContentEpoch
	// DONE waits until requests of former leaders can no longer land
	// (docs/protocol-objects.md#drain).
	drainWait
	// Stamps replace a lost mark only when requests of former leaders can no
	// longer land (docs/protocol-objects.md#drain).
	drainSurvey
	// A first reconciliation stops if the mark shows that another one was
	// finished.
	firstOnce
	// A mark that is written again while there is a status names the contents that the status
	// covers, not the contents of the stamps.
	statusServes
	// A mark that is created while there is a status contains firstDone.
	statusIsDone
	// If the mark gives a content epoch to other content, the leader chooses a
	// higher one.
	epochTaken
	// Newer content stays while a newer node is registered
	// (docs/protocol.md#rule-hold-for-newer).
	newerRegistered
	// Nodes that need a newer reconciler are blockers too.
	twoWays
	// The mark names a content before the first object of it is written
	// (docs/protocol-objects.md#mark).
	markFirst
	// A node is a blocker while it is registered, not only while it is alive.
	registeredBlock
	// The key of a dead leader expires with its lease (docs/protocol.md#sessions).
	keysExpire
	// A gate that is not ready stays closed while the status is missing
	// (docs/protocol-nodes.md#gate).
	absentKeepsClosed
	// A leader records itself as drained only if its predecessor was drained or
	// it waited itself (docs/protocol-objects.md#drain).
	drainInherits
	// A leader records itself as drained only if the outcome of each of its
	// requests is known.
	knownOutcomes
	// A gate closes before leaders may ignore the expired record of its node
	// (docs/protocol-nodes.md#dead-nodes).
	selfFencing
	// A gate that closed as overdue opens only after another registration.
	overdueRegisters
	// A presence that was written again counts only once the record was written
	// after it.
	announced
	// A node whose controller role was taken away is waited for until its sidecar
	// registers without it (docs/protocol-nodes.md#registration).
	servesUntilRegistered
	// No leader writes where the parent carries the ID of another store
	// (docs/protocol-objects.md#stores).
	oneStore
	// Content epochs come from the status and the mark. Stamps count only where both
	// are missing (docs/protocol.md#content-epoch).
	epochsFromEtcd
	// A leader that finds a content epoch above its own on an object reads the mark
	// before it removes it (docs/protocol-objects.md#forged-stamps).
	stampsChecked
	// Deletions carry UID and resourceVersion (docs/protocol-objects.md#stale-writes).
	deletePreconditions
	// Only objects of the inventory are removed (docs/protocol-objects.md#inventory).
	inventoryOnly
	// The objects of a content are added to the inventory before the first of them is
	// written.
	inventoryFirst
	// With prunePolicy: Immediately, DONE waits for removals
	// (docs/protocol-objects.md#removals).
	removalsFirst
	// A leader records its epoch in the status before its first write to the API
	// (docs/protocol-objects.md#drain).
	epochRecorded
	// A leader whose API is unreachable resigns (docs/protocol.md#yielding).
	yields
	// A node that withdrew lets older ones lead (docs/protocol.md#eligibility).
	withdrawnMakesWay
	// A parent is created without a mark (docs/protocol-objects.md#mark).
	blankFirst
	// A leadership ends when the store goes back (docs/protocol.md#sessions).
	restoreEndsTerm
	// Sidecars register again when the store goes back (docs/protocol-nodes.md#went-back).
	restoreRegisters
)

func (c *Config) holds(g safeguard) bool { return c.Off&g == 0 }
