// Package status owns the one status key in etcd and the readiness gate that
// rests on it (DESIGN 3, 4.8). Store reads and writes the key, and is the only
// one to write it; Gate turns registration and status into a verdict. What a
// status means is decided in package protocol.
//
// Gate.Run and Store.Run are one goroutine each, plus what they wait for.
package status
