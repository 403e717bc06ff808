package member

import (
	"context"
	"errors"
	"fmt"
)

// MakeData starts a child that makes a member's data from cfg.Spec.Snapshot, and waits for its end. If ctx
// ends first, MakeData stops the child, and returns ctx's error.
func MakeData(ctx context.Context, cfg Config) error {
	c, err := startChild(ctx, cfg, func(Message) {})
	if err != nil {
		return err
	}
	c.finish(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.message.Problem != "":
		return errors.New(c.message.Problem)
	case !c.Succeeded():
		return fmt.Errorf("the program that makes the data of etcd has failed: %s", c.reason())
	}
	return nil
}
