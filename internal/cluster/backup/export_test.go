package backup

import (
	"context"
	"errors"
)

// RestoreUntil takes the first steps of a restoration, as a process that is killed after them. more reports whether
// others follow.
func RestoreUntil(ctx context.Context, cfg Config, count int) (more bool, err error) {
	r, err := newRestoration(cfg)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.dir.Close()) }()
	for i, step := range r.steps() {
		if i == count {
			return true, nil
		}
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}
