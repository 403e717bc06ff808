package backup

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// No restored store begins at a revision that an earlier one of the same snapshot, or a write after it,
// could use. The clock may be wrong.
func TestFirstRevision(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, time.November, day, 0, 0, 0, 0, time.UTC) }
	first := firstRevision(at(1), 100)
	for name, c := range map[string]struct {
		used  []int64
		now   time.Time
		above int64
	}{
		"the same snapshot, 10 s later, after 10,000 writes a second": {[]int64{100}, at(1).Add(10 * time.Second), first + 99_999},
		"a snapshot of the restored store":                            {[]int64{first + 1000}, at(1).Add(time.Minute), first + 1000},
		"the clock went back":                                         {[]int64{first}, at(1).AddDate(-1, 0, 0), first + minBump - 1},
		"the clock went back, and the snapshot is older":              {[]int64{100, first}, at(1).AddDate(-1, 0, 0), first + minBump - 1},
		"the same, and the data is newer":                             {[]int64{100, first, first + 7e9}, at(1).AddDate(-1, 0, 0), first + 7e9 + minBump - 1},
		"the clock is before 2020":                                    {[]int64{first}, time.Unix(0, 0), first + minBump - 1},
		"after ten years of 1,000 writes a second":                    {[]int64{1000 * 3600 * 24 * 3650}, at(1), 1000*3600*24*3650 + minBump - 1},
	} {
		if got := firstRevision(c.now, c.used...); got <= c.above {
			t.Errorf("%s: got the revision %d, want more than %d", name, got, c.above)
		}
	}
}

// The data that is replaced may be damaged in any way, and often is. That ends nothing.
func TestNewestRevision(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "db")
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	const newest = 10_000
	if err := db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucket(keyBucket)
		for revision := uint64(1); revision <= newest && err == nil; revision++ {
			change := append(binary.BigEndian.AppendUint64(nil, revision), "_00000000t"...)
			err = bucket.Put(change, make([]byte, 100))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := newestRevision(file); err != nil || got != newest {
		t.Errorf("got %d, %v", got, err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zeros := append(append([]byte{}, whole[:8192]...), make([]byte, len(whole)-8192)...)
	for name, text := range map[string][]byte{"cut off": whole[:8192], "zeros": zeros, "empty": {}, "text": []byte("no database")} {
		broken := filepath.Join(dir, "broken")
		if err := os.WriteFile(broken, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := newestRevision(broken); err == nil {
			t.Errorf("%s: got %d and no error", name, got)
		}
	}
}
