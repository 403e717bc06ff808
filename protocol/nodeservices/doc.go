// Package nodeservices decides when the services of a node start and stop
// (docs/protocol-nodes.md#services). It is pure, as package protocol is. Package internal/role
// carries the decisions out.
//
// The code of each part of the specification:
//
//	#services      Next           services.go the next step with the services of the controller role
//	               MayRegister    services.go may the record be written
//	               Failing        failing.go  which services fail
//	#service-turns JudgeRestart   restart.go  may services that changed be started again now
//	               NextTurnAction restart.go  when does a node take a turn for them, and end it
package nodeservices
