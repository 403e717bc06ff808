package model

// Rule is a rule of the protocol that a search can turn off, to see that it is
// needed and that the search would notice.
type safeguard uint32

// The rules.
const (
	registerFirst     safeguard = 1 << iota // a gate reads the status only once it is registered (4.2)
	nodesGuard                              // a restriction is committed only if no record was modified (WaitForNodes)
	snapshot                                // leaders decide from a snapshot, not from what a watch has seen (4.3)
	leaderGuard                             // a status is committed only while the leader's key stands (4.5)
	confirmed                               // a leader's snapshot confirms its leadership (4.6)
	intersection                            // a restricted status fits before and after (WaitForNodes)
	preconditions                           // requests to the API carry UID and resourceVersion, and newer stamps are left alone (6.4)
	lostStatus                              // a status that is gone is not taken for a new cluster (RebuildStatus)
	firstDone                               // a mark says whether the first reconciliation was ever finished (6.4)
	newContentEpoch                         // other content of the same release gets another content epoch (6.4)
	drainWait                               // DONE waits until requests of former leaders can no longer land (6.4)
	drainSurvey                             // stamps serve for a lost mark only when requests of former leaders can no longer land (6.4)
	firstOnce                               // a first reconciliation stops where the mark says that there was one (6.4)
	statusServes                            // a mark that is made anew fallback a status names what the status covers, not what the stamps say
	statusIsDone                            // a mark that is made while there is a status has firstDone (6.4)
	epochTaken                              // a content epoch that the mark gives to other content is not used, but a higher one
	newerRegistered                         // newer content stays while a newer node is registered (HoldForNewer)
	twoWays                                 // nodes that need a newer reconciler are blockers, too (WaitForNodes)
	markFirst                               // the mark names a content before its first object is written (6.4)
	registeredBlock                         // blockers count while they are registered, not while they are alive (4.3)
	keysExpire                              // the key of a dead leader goes with its lease (4.6)
	absentKeepsClosed                       // a gate that is not ready stays so while the status is gone (4.8)
	drainInherits                           // a leader drains only if the one before had, or its own wait is over (6.4)
	knownOutcomes                           // a leader drains only when the outcome of each of its requests is known (6.4)
	selfFencing                             // a gate closes before leaders may pass over its node's record (4.9)
	fencedRegisters                         // a gate that was fenced opens only after another registration (4.9)
	announced                               // a presence that was put again counts once the record was written after it (4.9)
)

func (c *Config) holds(g safeguard) bool { return c.Off&g == 0 }
