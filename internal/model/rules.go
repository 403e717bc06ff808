package model

// Rule is a rule of the protocol that a search can turn off, to see that it is
// needed and that the search would notice.
type Rule uint32

// The rules.
const (
	RegisterFirst     Rule = 1 << iota // a gate reads the status only once it is registered (4.2)
	NodesGuard                         // a restriction is committed only if no record was modified (WaitForNodes)
	Snapshot                           // leaders decide from a snapshot, not from what a watch has seen (4.3)
	LeaderGuard                        // a status is committed only while the leader's key stands (4.5)
	Confirmed                          // a leader's snapshot confirms its leadership (4.6)
	Intersection                       // a restricted status fits before and after (WaitForNodes)
	Preconditions                      // requests to the API carry UID and resourceVersion, and newer stamps are left alone (6.4)
	LostStatus                         // a status that is gone is not taken for a new cluster (RebuildStatus)
	FirstDone                          // a mark says whether the first reconciliation was ever finished (6.4)
	NewContentEpoch                    // other content of the same release gets another content epoch (6.4)
	DrainWait                          // DONE waits until requests of former leaders can no longer land (6.4)
	DrainSurvey                        // stamps serve for a lost mark only when requests of former leaders can no longer land (6.4)
	FirstOnce                          // a first reconciliation stops where the mark says that there was one (6.4)
	StatusServes                       // a mark that is made anew beside a status names what the status covers, not what the stamps say
	StatusIsDone                       // a mark that is made while there is a status has firstDone (6.4)
	EpochTaken                         // a content epoch that the mark gives to other content is not used, but a higher one
	NewerRegistered                    // newer content stays while a newer node is registered (HoldForNewer)
	TwoWays                            // nodes that need a newer reconciler are blockers, too (WaitForNodes)
	MarkFirst                          // the mark names a content before its first object is written (6.4)
	RegisteredBlock                    // blockers count while they are registered, not while they are alive (4.3)
	KeysExpire                         // the key of a dead leader goes with its lease (4.6)
	AbsentKeepsClosed                  // a gate that is not ready stays so while the status is gone (4.8)
	DrainInherits                      // a leader drains only if the one before had, or its own wait is over (6.4)
	KnownOutcomes                      // a leader drains only when the outcome of each of its requests is known (6.4)
	SelfFencing                        // a gate closes before leaders may pass over its node's record (4.9)
	FencedRegisters                    // a gate that was fenced opens only after another registration (4.9)
	Announced                          // a presence that was put again counts once the record was written after it (4.9)
)

func (c *Config) holds(r Rule) bool { return c.Off&r == 0 }
