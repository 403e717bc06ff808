// Package publish decides which addresses the Service kubernetes gets, and which sidecar
// writes them (docs/protocol-endpoints.md#kubernetes-service). It is pure, as package protocol is,
// whose fleet it reads. Package internal/endpoints carries the decisions out.
//
// The code of each part of the specification:
//
//	#kubernetes-service Nodes          publish.go whose addresses belong in the Service, and why not
//	                    Next           publish.go does a sidecar write an object, and what
//	                    Overwrites     publish.go how long does it leave an object to another client
//	                    Delay          publish.go how long does it wait for the other sidecars
//	                    RemovalPending removal.go may the address of a closed gate still leave
//	                    Outside        outside.go which nodes in service do not take part
//	#second-family      Families       publish.go of which families are the addresses
//
// # Invariants
//
// The rules exist to keep these (docs/protocol.md#invariants):
//
//	Published    an address in the Service kubernetes was ready at the annotated revision
//	NotOlder     a lower revision replaces a higher one only after the store went back
//	LastAddress  the last address of the Service stays
//	Yields       Lockstep does not fight with another client over the Service
//	Follows      in the end the Service lists the addresses of the ready nodes
package publish
