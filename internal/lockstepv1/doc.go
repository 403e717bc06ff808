// Package lockstepv1 has the wire format of the values in etcd
// (docs/protocol.md#keys). Only the codec.go files of packages status and fleet
// import it: they convert between bytes and plain values.
package lockstepv1

//go:generate protoc -I . --go_out=../.. --go_opt=module=github.com/lockstep-dev/lockstep lockstep.proto
