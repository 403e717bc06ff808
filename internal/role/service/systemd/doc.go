// Package systemd runs a service as a unit of systemd, through D-Bus (docs/roles.md#systemd-unit).
// It decides by the state of the unit whether an instance runs or ended. The user owns the unit
// itself.
//
// It asks for jobs, and then judges by the unit's state alone: a finished job does not mean that
// the unit runs, and its result never arrives if the bus ends. Changes of properties wake it, and
// so does a timer. It reconnects after a lost connection, and keeps the last known state until
// then.
//
// Each connection starts one goroutine, which ends with it. The D-Bus library starts more.
package systemd
