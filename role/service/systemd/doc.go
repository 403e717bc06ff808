// Package systemd runs a service as a unit of systemd, through D-Bus
// (docs/roles.md#systemd-unit). It owns which state of the unit means that an instance runs or
// has ended. The unit itself is the user's.
//
// It asks for jobs, and then judges the unit's state alone: a job that is done does not mean that
// the unit runs, and its result never arrives when the bus ends. Changes of properties wake it,
// and so does a timer. A connection that was lost is made again; until then what was known last
// is kept.
//
// Each connection has one goroutine, which ends with it. The D-Bus library has more.
package systemd
