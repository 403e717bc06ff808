package packed_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/packed"
)

// Whatever a program has, it is the same again.
func TestAbsolute(t *testing.T) {
	own, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	programs := [][]byte{own, nil, {0xe8}, {0xe8, 0, 0, 0}, {0xe8, 1, 2, 3, 0}, bytes.Repeat([]byte{0xe8, 0xff}, 100)}
	for range 1000 {
		b := make([]byte, rnd.IntN(200))
		for i := range b {
			b[i] = []byte{0xe8, 0, 0xff, byte(rnd.Uint32())}[rnd.IntN(4)]
		}
		programs = append(programs, b)
	}
	for i, content := range programs {
		changed := bytes.Clone(content)
		packed.Absolute(changed)
		if i == 0 && bytes.Equal(changed, content) {
			t.Error("nothing was changed in this program")
		}
		packed.Relative(changed)
		if !bytes.Equal(changed, content) {
			t.Errorf("program %d of %d bytes is another one", i, len(content))
		}
	}
}
