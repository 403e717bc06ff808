package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// IsNoSpace reports whether etcd refused a write because the database of a member reached its quota.
func IsNoSpace(err error) bool {
	return errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace)
}

// Compact deletes all revisions before the newest one, and returns when the server in use has deleted
// them. Only the newest value of each key is left, so a client that reads or watches from an older
// revision must list again. A full etcd does that too. ctx bounds it: with a large store, it takes
// seconds.
func (c *Client) Compact(ctx context.Context) error {
	resp, err := c.Get(ctx, c.prefix, clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	_, err = c.link().client.Compact(ctx, resp.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) { // compacted already, which is the aim
		return fmt.Errorf("compact etcd to revision %d: %w", resp.Header.Revision, err)
	}
	return nil
}

// Defragment makes the member with that client URL write its database again, without the space that
// nothing uses. The member answers nothing meanwhile, for some seconds with a database of gigabytes,
// and needs space on its disk for both. ctx bounds it: after an error, the member may still be at it.
func (c *Client) Defragment(ctx context.Context, clientURL string) error {
	l, done, err := c.linkTo(clientURL)
	if err != nil {
		return err
	}
	defer done()
	server := etcdserverpb.NewMaintenanceClient(l.client.ActiveConnection())
	if _, err := server.Defragment(ctx, &etcdserverpb.DefragmentRequest{}); err != nil {
		return fmt.Errorf("defragment etcd at %s: %w", clientURL, err)
	}
	return nil
}

// DisarmNoSpace ends the alarms of full databases, and returns of how many members there were some. etcd
// refuses writes until then, also if there is space again. Alarms of another kind stay.
func (c *Client) DisarmNoSpace(ctx context.Context) (members int, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	client := c.link().client
	all, err := client.AlarmList(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the alarms of etcd: %w", err)
	}
	for _, alarm := range all.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if _, err := client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
			return members, fmt.Errorf("end the alarm of member %x of etcd: %w", alarm.MemberID, err)
		}
		members++
	}
	return members, nil
}
