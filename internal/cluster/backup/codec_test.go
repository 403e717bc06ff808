package backup_test

import (
	"path/filepath"
	"strconv"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// saveStore saves a store with keys that were written, written again, and deleted.
func saveStore(t *testing.T) (file string) {
	t.Helper()
	server := etcdtest.New(t)
	client := server.Client(t)
	for i := range 40 {
		if _, err := client.Put(t.Context(), "/p/"+strconv.Itoa(i%30), "value"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Delete(t.Context(), "/p/1", clientv3.WithPrefix()); err != nil { // 1 and 10 to 19
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "/p/15", "again"); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "snapshot")
	if err := server.Save(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	return file
}

// Verify reads the same values from a snapshot as etcd's own tool.
func TestVerify_asEtcd(t *testing.T) {
	file := saveStore(t)
	want, err := snapshot.NewV3(zap.NewNop()).Status(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := backup.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.Revision != want.Revision || got.Keys != want.TotalKey || got.Bytes != want.TotalSize || got.Keys != 20 {
		t.Errorf("got %+v, want %+v with 20 keys", got, want)
	}
}
