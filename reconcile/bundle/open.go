package bundle

import (
	"errors"

	"github.com/lockstep-dev/lockstep/protocol"
)

// BuiltinName names the built-in bundle where the directory of a bundle is expected.
// A directory of that name is reached as ./builtin.
const BuiltinName = "builtin"

// Open loads the bundle in dir, or the built-in one if dir is BuiltinName. An empty dir is an
// error: a leader would replace the objects of another bundle because a name was forgotten.
// Other errors are errors of Load.
func Open(dir string) (*Bundle, error) {
	switch dir {
	case "":
		return nil, errors.New("no bundle is named: it is a directory, or " + BuiltinName + " for the built-in bundle")
	case BuiltinName:
		return Builtin()
	}
	return Load(dir)
}

// Local describes a node that runs with the bundle: everything but its ID and ExpireAfter.
func (b *Bundle) Local() protocol.Local {
	return protocol.Local{
		Version: b.Version, Constraints: b.Constraints, Digest: b.Digest, Bundle: b.Name, APIServer: b.APIServer,
		PruneImmediately: b.PruneImmediately,
	}
}
