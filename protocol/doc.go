// Package protocol is the core of Lockstep: every decision of docs/protocol.md as
// a pure function. Facts go in, a decision comes out. The package uses no I/O, no
// clock, no randomness and no memory. Packages fleet, status, election and
// reconcile read the facts, call it, and carry out the decision. Package internal/rollout
// and the model checker call the same functions. Seven packages lie below it: upgrade decides whether
// the next upgrade may start, noderecord about a node's record, publish about the Service kubernetes, membership
// about members of etcd, nodeservices about what a node runs, nodeturns about who works on a node while the others
// serve, and warn has the reasons of warnings and their order.
//
// The code of each part of the specification:
//
//	#admission         Admits           admit.go        may a node serve under a status
//	#apiserver-version APIServerProblem apiserver.go    does a kube-apiserver fit the bundle
//	#cordons           JudgeCordon      cordon.go       may this node be taken out of service
//	#snapshots         Fleet            fleet.go        records and presences at one revision
//	                   Summarize        fleet.go        their lowest and highest release
//	#eligibility       Eligible         eligible.go     may this sidecar campaign
//	#leader-rules      Next             next.go         what does the leader do now
//	                   Rule             rules.go        the rules, in order
//	                   Blockers         blockers.go     which nodes a new status would shut out
//	                   target           status.go       the status in which a leader's work ends
//	                   restrict         status.go       the status that fits before and after
//	                   rebuild          status.go       the status that replaces a lost one
//	#yielding          Next             next.go         YieldUnreachable
//	#gate              Judge            verdict.go      is this node ready, and why not
//	#overrides         JudgeOverride    override.go     is an override in force
//	#dead-nodes        Overdue          expiry.go       must a sidecar close its gate
//	                   Expired          expiry.go       may a leader ignore a record
//	#content-epoch     credibleEpoch    epoch.go        which content epoch counts
//	#stores            Next             next.go         HoldForStore
//	#bundle-names      Next             next.go         HoldForBundle
//	#rollback          Next             next.go         ResignForRollback
//	                   JudgeRollback    rollback.go     may people begin a rollback
//	                   RollbackDone     rollback.go     did it reach its aim
//	#removals          removalsDue      removals.go     may dropped objects be deleted
//	#mark              Mark             mark.go         the contents that may be in the API
//	#drain             DrainStateOf     drain.go        had the previous leaders ended their requests
//	                   Drain            drain.go        which status does a leader write when it resigns
//
// The code that reads the facts and carries out the decisions:
//
//	#keys              keyspace/keyspace.go, internal/lockstepv1/lockstep.proto
//	#registration      fleet/register.go writes the record, status/gate.go reads the status after it
//	#apiserver-version internal/apiserver/version.go
//	#cordons           fleet/cordon.go
//	#snapshots         election/snapshot.go, election/inputs.go
//	#eligibility       election/campaign.go
//	#leader-rules      election/leader.go
//	#sessions          etcd/session.go
//	#yielding          election/yield.go
//	#gate              status/gate.go
//	#overrides         status/override.go
//	#dead-nodes        fleet/expiry.go confirms the presence, election/absence.go counts
//	#ephemeral         fleet/retire.go, election/deletions.go; fleet/retirer.go waits
//	#duplicate-ids     fleet/presence.go
//	#clocks            fleet/clocks.go
//	#services          internal/role/starter.go
//	#turns             fleet/turns.go and turnend.go take and end them, internal/turns/turns.go on the node
//	#service-turns     internal/role/serviceturns.go
//	#kubernetes-service internal/endpoints/plan.go
//	#membership        internal/role/controlplane.go joins and leaves, internal/cluster/quorum/remove.go asks and removes
//	#rotation          internal/cluster/quorum/rotation.go, and internal/cluster/rotation/rotation.go on the node
//	#bundle-names      election/replace.go asks for the replacement
//	#rollback          election/rollback.go
//	#removals          reconcile/pass.go
//	#upgrade-ready     httpapi/upgrade.go shows the answer, internal/show/warnings.go the warnings
//	#apply             reconcile/pass.go
//	#drain             election/drain.go
//	#invariants        internal/model/invariants.go
//
// # The leader's rules
//
// L is the leader's release, A its minApiserverRelease. The first rule that
// applies decides.
//
//	ResignWithoutRole    its record lost the controller role                 Resign
//	ResignCordoned       its node was taken out of service                   Resign
//	ResignForRollback    people roll back to another release                 Resign
//	ResignToNewer        a newer controller is alive                         Resign
//	YieldUnreachable     its kube-apiserver stays unreachable                Resign, withdrawn
//	AwaitStatus          the status is not read yet                          Hold
//	HoldForStore         the objects carry the ID of another store           Hold
//	HoldForBundle        the objects belong to a bundle of another name      Hold
//	FirstReconciliation  no status, and none was ever written                Reconcile, Write(target)
//	RebuildStatus        no status, but the mark names the content           Survey, Write(rebuilt)
//	HoldForNewer         newer content, and a newer node is registered       Hold
//	KeepTarget           the status is the target                            Write (records the epoch), Reconcile once, Hold
//	ApplyContent         L >= version and A <= minimum                       Survey, Write(WORKING), Reconcile, Write(target)
//	WaitForNodes         otherwise                                           Await(blockers), Write(restricted)
//
// # Invariants
//
// The rules exist to keep these (docs/protocol.md#invariants):
//
//	Compatible    a ready gate fits all content that is present
//	Covers        the status is no wider than all present content allows
//	Registered    a node is ready only with a record of its running release
//	OneWriter     each revision of the status is from the confirmed leader of its epoch
//	NoStaleWrite  no write of a lower content epoch changes an object
//	GuardHeld     a restriction is committed only while no blocker is registered,
//	              except expired ones
//	Awaited       behind a ready gate is a record that no leader ignores
//	Steady        a valid change of the status never closes the gate of a node that serves
//	DoneIsDone    DONE was true at an instant after the last possible stale write
//	NoFight       between two changes of content, an object is written only to reach it
//	OwnEpochs     no content epoch of a leader follows from a stamp
//	Listed        the inventory contains each object that a leader wrote, and no other
//	              object is removed
//	OneBundle     no leader replaces the objects of another bundle, unless people asked for that
//	Progress      only the blockers named in /status hold an upgrade back
package protocol
