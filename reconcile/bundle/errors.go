package bundle

import "github.com/lockstep-dev/lockstep/internal/strict"

// Problem is one fault of a bundle, and its place.
type Problem = strict.Problem

// LoadError contains all problems of a bundle.
type LoadError = strict.LoadError
