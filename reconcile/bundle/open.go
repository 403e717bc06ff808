package bundle

import "github.com/lockstep-dev/lockstep/protocol"

// Open loads the bundle in dir, or the built-in one if dir is empty. Errors are
// those of Load.
func Open(dir string) (*Bundle, error) {
	if dir == "" {
		return Builtin()
	}
	return Load(dir)
}

// Local returns what a node is that runs with the bundle: everything but its ID
// and FenceAfter.
func (b *Bundle) Local() protocol.Local {
	return protocol.Local{
		Version: b.Version, Constraints: b.Constraints, Digest: b.Digest, Bundle: b.Name, PruneImmediately: b.PruneImmediately,
	}
}
