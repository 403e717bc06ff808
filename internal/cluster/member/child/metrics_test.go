package child

import "testing"

// BenchmarkMeasured measures the cost of a child's message with its measures. etcd's own
// metrics are in this process because it imports etcd's server.
func BenchmarkMeasured(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := measured(); err != nil {
			b.Fatal(err)
		}
	}
}
