package applyset

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
)

// ID is a short hash of an object's key. 96 bits are enough: a user who looks for
// the name of an object with the ID of one of ours needs more than 2^80 attempts.
type ID [12]byte

// IDOf returns the ID of the object that k names.
func IDOf(k Key) ID {
	sum := sha256.Sum256([]byte(k.Group + "\x00" + k.Kind + "\x00" + k.Namespace + "\x00" + k.Name))
	return ID(sum[:len(ID{})])
}

// Inventory lists the objects that the set wrote and did not remove since, sorted
// and each once (docs/protocol-objects.md#inventory). Only they can be removed: labels,
// annotations and field managers can be forged.
type Inventory []ID

// inventoryKey is the key of the inventory in the parent's data.
const inventoryKey = "inventory"

// NewInventory returns the inventory of some IDs.
func NewInventory(ids []ID) Inventory {
	return slices.Compact(slices.SortedFunc(slices.Values(ids), compareIDs))
}

func compareIDs(a, b ID) int { return bytes.Compare(a[:], b[:]) }

// Has reports whether the inventory lists the object that k names.
func (v Inventory) Has(k Key) bool {
	_, found := slices.BinarySearchFunc(v, IDOf(k), compareIDs)
	return found
}

// With returns the inventory with more objects.
func (v Inventory) With(more Inventory) Inventory { return NewInventory(slices.Concat(v, more)) }

// encode returns 16 characters for each object, so that 10,000 fit well into the
// parent.
func (v Inventory) encode() string {
	raw := make([]byte, 0, len(v)*len(ID{}))
	for _, id := range v {
		raw = append(raw, id[:]...)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

var errInventory = errors.New("decode the inventory: it is damaged")

// decodeInventory decodes the results of encode, and nothing else: half of an inventory would
// turn objects of ours into strangers.
func decodeInventory(text string) (Inventory, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw)%len(ID{}) != 0 {
		return nil, errInventory
	}
	out := make(Inventory, 0, len(raw)/len(ID{}))
	for part := range slices.Chunk(raw, len(ID{})) {
		id := ID(part)
		if n := len(out); n > 0 && compareIDs(out[n-1], id) >= 0 {
			return nil, errInventory
		}
		out = append(out, id)
	}
	if out.encode() != text { // base64 allows white space, and more than one form of some bytes
		return nil, errInventory
	}
	return out, nil
}

// Members are the objects of the set: the bundle's and the inventory's. Any other object with
// the set's label is a stranger.
type Members struct {
	Wanted    map[Key]bool
	Inventory Inventory
}

// Has reports whether the object that k names is of the set.
func (m Members) Has(k Key) bool { return m.Wanted[k] || m.Inventory.Has(k) }
