// Package table prints a report of a sidecar as the table that people read, and the
// facts of it that changed since the report before. It requests nothing, and has no
// opinion about a cluster: what a row says is in the report.
package table
