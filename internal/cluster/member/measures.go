package member

// Durations counts operations by how long they took, since a process started.
type Durations struct {
	Count   uint64
	Sum     float64          // seconds
	Buckets []DurationBucket // by UpTo
}

// DurationBucket is how many operations took at most UpTo seconds.
type DurationBucket struct {
	UpTo  float64
	Count uint64
}

// Measures are an etcd member's own measurements since its process started.
type Measures struct {
	Fsync         Durations // of its log, before it answers a write
	Commit        Durations // of its database
	LeaderChanges uint64    // that it saw; its first leader is one
}
