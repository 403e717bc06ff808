// Package protocol is the core of Lockstep: every decision of DESIGN section 4
// as a pure function. Facts go in, a decision comes out; there is no I/O, no
// clock, no randomness and no memory in it. The shells (packages fleet, status,
// election, reconcile) gather the facts, ask, and carry out the answer.
//
// Who asks what:
//
//	Admits     may a node serve under a status (4.1)
//	Judge      the gate's verdict (4.8)
//	Summarize  the lowest and highest release of the fleet (4.3)
//	Eligible   may this sidecar campaign (4.4)
//	Next       what does the leader do now (4.5)
//	Blockers   which registered nodes a new status would shut out (WaitForNodes)
//	Expired    may a leader pass over a record whose presence is gone (4.9)
//	Fences     must a sidecar close its gate, lest it be passed over (4.9)
//
// # The leader's rules
//
// L is the leader's release, A its minApiserverRelease. The first rule that
// fits decides.
//
//	ResignWithoutRole    its record no longer has the controller role        Resign
//	ResignToNewer        a newer controller is alive                          Resign
//	YieldUnreachable     its kube-apiserver stays unreachable                 Resign, withdrawn
//	AwaitStatus          the status has not been read yet                     Hold
//	FirstReconciliation  no status, and none was ever written                 Reconcile, then Write(target)
//	RebuildStatus        no status, but the mark names the content            Survey, Write(rebuilt)
//	HoldForNewer         newer content, and a newer node is registered        Hold
//	KeepTarget           the status is the target                             Write (records the epoch), Reconcile once, Hold
//	ApplyContent         L >= version and A <= minimum                        Survey, Write(WORKING), Reconcile, Write(target)
//	WaitForNodes         otherwise                                            Await(blockers), Write(restricted)
//
// # Invariants
//
// The rules exist to keep these (4.11):
//
//	Compatible   a ready gate fits all content that is present
//	Covers       the status is no wider than what all present content allows
//	Registered   ready only with a record that tells the running release
//	OneWriter    each revision of the status is of the confirmed leader of its epoch
//	NoStaleWrite no write of a lower content epoch changes an object
//	GuardHeld    a restriction is committed only while no blocker is registered
//	             that has not expired
//	Steady       a valid change of the status never closes the gate of a node that serves
//	DoneIsDone   DONE was true at an instant after the last possible stale write
//	NoFight      between two changes of content an object is written only to reach it
//	Progress     only the blockers named in /status hold an upgrade
package protocol
