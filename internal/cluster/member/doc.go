// Package member runs an etcd member as a child process, and keeps it running
// (docs/clusters.md). etcd's server ends its process when it meets a full disk or a
// damaged file, and it panics. So it runs in a process of its own, and the gate
// stays as it is when that process ends.
//
// This package is the parent's side, and the messages between the two. Package child
// is the child's side: the same program, started with another command.
//
//	parent -> child  stdin: the Spec, one line of JSON. It stays open. Its end means:
//	                 stop gracefully. So no child survives a parent that was killed.
//	child -> parent  stdout: Messages, one line of JSON each.
//	child -> parent  stderr: etcd's log, one line of JSON each, and the text that the Go
//	                 runtime writes when the process ends by a panic.
//	parent -> child  file 3: the lock of the data directory, open as long as the child
//	                 runs. So nothing else uses the directory before the child ends.
//
// Supervisor.Run starts two goroutines for each child, which read its output, and waits
// for them. State is an event value that Run writes.
package member
