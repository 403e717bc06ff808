package bundle

import (
	"embed"
	"io/fs"
	"path"
)

// builtin is the bundle with which people try Lockstep out. It is also an example of
// how to write one.
//
//go:embed builtin
var builtin embed.FS

// Builtin returns the bundle that is part of the program.
func Builtin() (*Bundle, error) {
	sub, err := fs.Sub(builtin, "builtin")
	if err != nil {
		return nil, err
	}
	return loaderOf(sub, func(name string) string { return path.Join("builtin", name) }).load()
}
