// Package lockstepv1 holds the wire format of the values in etcd (DESIGN
// section 3). It owns bytes only: the codec.go files of packages status and
// fleet turn them into plain values once, at the border, and nothing else
// imports it.
package lockstepv1

//go:generate protoc -I . --go_out=../.. --go_opt=module=github.com/lockstep-dev/lockstep lockstep.proto
