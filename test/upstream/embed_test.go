package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Relied on: these are the steps in which etcd's package embed makes a member and ends it. Ours makes it in the same ones, except those
// that docs/adr/0024-strangers-have-an-allowance.md#etcd names.
func TestEmbed_steps(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "go.etcd.io/etcd/server/v3/embed").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"etcd.go":  "cdde53cf06bb2a6931dc4b34bc79274f92669425efd94ecc7f883dac3148d760",
		"serve.go": "733bd86588948999fb3e907be5c43c7741aab6cf82a82c678836c43d78a32462",
	} {
		source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != want {
			broken(t, "embed/"+name+" of etcd is another one, with the sum "+hex.EncodeToString(sum[:]),
				"read what changed there, follow it in internal/cluster/member/child/server.go, then write the sum into this test")
		}
	}
}
