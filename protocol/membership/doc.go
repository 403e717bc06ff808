// Package membership decides about the members of an etcd that the sidecars run: who
// becomes one, who leaves, and what they need (docs/protocol-membership.md#membership). It is pure, as
// package protocol is. The packages below internal/cluster carry the decisions out.
//
// The code of each part of the specification:
//
//	#membership JudgeRemoval     membership.go may a member be removed
//	            NextStep         membership.go how does a node become a member, and leave
//	            Standing         authority.go  may a node sign or renew certificates
//	#clear      MayClear         clear.go      may the data of a member that left be deleted
//	#learners   NextLearnerStep  learner.go    when does a learner vote, and when is it removed
//	#addresses  JudgeAddition    addition.go   may a node be added
//	#rotation   NextRotationStep rotation.go   how is the CA replaced
//	            NextRotationDuty rotation.go   what does a node have to do for that
//
// # Invariants
//
// The rules exist to keep these (docs/protocol.md#invariants):
//
//	Voters   no removal takes the last voter, or a majority that answers
//	OneLife  a voter keeps its data, and a removed member's data is not used
//	Settles  in the end each node is a member exactly if it has the role
package membership
