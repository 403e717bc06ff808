package process

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Identity holds the user and the groups of a process.
type Identity struct {
	Name, Home string // of the user; empty: the user has no entry on this machine
	credential syscall.Credential
}

// Lookup returns the identity of a user, by name or number, with any group; an empty group: the
// user's primary group. nil: the sidecar's own identity. An error explains why a process of this
// sidecar cannot run with this identity.
func Lookup(name, group string) (*Identity, error) {
	id, err := lookup(name, group)
	if err != nil {
		return nil, err
	}
	return id.usable(os.Geteuid(), os.Getegid())
}

// usable returns the identity to set for a child of a sidecar with these IDs; nil: none, the
// sidecar already runs with it.
func (i *Identity) usable(uid, gid int) (*Identity, error) {
	switch {
	case uid == 0:
		return i, nil
	case int(i.credential.Uid) == uid && int(i.credential.Gid) == gid:
		return nil, nil //nolint:nilnil // the sidecar runs with it
	}
	return nil, fmt.Errorf("only a sidecar of root can run a process as another user, and this one has the user ID %d: start it as root, or remove user and group", uid)
}

func lookup(name, group string) (*Identity, error) {
	out := &Identity{}
	found, err := user.Lookup(name)
	if err != nil {
		if found, err = user.LookupId(name); err != nil {
			return bare(name, group)
		}
	}
	out.Name, out.Home = found.Username, found.HomeDir
	if out.credential.Uid, err = number(found.Uid); err != nil {
		return nil, err
	}
	if out.credential.Gid, err = groupOf(found.Gid, group); err != nil {
		return nil, err
	}
	more, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", name, err)
	}
	for _, g := range more {
		id, err := number(g)
		if err != nil {
			return nil, err
		}
		out.credential.Groups = append(out.credential.Groups, id)
	}
	return out, nil
}

// bare returns the identity of a number without an entry: it needs a group.
func bare(name, group string) (*Identity, error) {
	id, err := number(name)
	if err != nil {
		return nil, fmt.Errorf("user %q does not exist on this machine", name)
	}
	if group == "" {
		return nil, fmt.Errorf("user %q has no entry on this machine, so group must be set", name)
	}
	gid, err := groupOf("", group)
	return &Identity{credential: syscall.Credential{Uid: id, Gid: gid}}, err
}

func groupOf(own, group string) (uint32, error) {
	if group == "" {
		return number(own)
	}
	if found, err := user.LookupGroup(group); err == nil {
		return number(found.Gid)
	}
	id, err := number(group)
	if err != nil {
		return 0, fmt.Errorf("group %q does not exist on this machine", group)
	}
	return id, nil
}

// number parses an ID. It rejects the highest one, which means "do not change it".
func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil && uint32(n) == ^uint32(0) {
		err = strconv.ErrRange
	}
	return uint32(n), err //nolint:gosec // of 32 bits
}

// environ returns the variables from which programs learn their user.
func (i *Identity) environ() []string {
	if i == nil || i.Name == "" {
		return nil
	}
	return []string{"USER=" + i.Name, "LOGNAME=" + i.Name, "HOME=" + i.Home}
}
