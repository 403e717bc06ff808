package role

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Disk is the file in which a sidecar keeps the facts that it needs before etcd answers. A nil
// *Disk keeps nothing. Before Load it is empty, and must not be changed: another sidecar may still
// use the file.
type Disk struct {
	path string

	mu     sync.Mutex // guards the fields below; also keeps writes of the file in the order of changes
	now    content    // the roles may not be in the file yet
	kept   content    // the content of the file
	loaded bool
}

// content is the JSON content of the file.
type content struct {
	// Roles are the names of the last roles that the sidecar read; nil: none yet.
	Roles []string `json:"roles"`
	// Release is the release for which services were last started; empty: none ever were.
	Release string `json:"servicesRelease,omitempty"`
	// Started are the units and pods that may run.
	Started []service.Started `json:"started,omitempty"`
}

const fileMode = 0o600

// NewDisk returns the file at path. It does not read the file.
func NewDisk(path string) *Disk { return &Disk{path: path} }

// Load reads the file, which need not exist.
func (d *Disk) Load() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	text, err := os.ReadFile(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.loaded = true
		return nil
	case err != nil:
		return err
	}
	var now content
	if err = json.Unmarshal(text, &now); err == nil {
		_, err = protocol.ParseRoles(now.Roles)
	}
	for _, st := range now.Started {
		err = errors.Join(err, st.Validate())
	}
	if err != nil {
		return fmt.Errorf("%q: %w; delete it: the sidecar writes it again when etcd answers", d.path, err)
	}
	d.now, d.kept, d.loaded = now, now, true
	return nil
}

// Loaded reports whether Load read the file, or found that there is none. A nil
// *Disk has nothing to read.
func (d *Disk) Loaded() bool {
	if d == nil {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.loaded
}

// Roles returns the newest roles.
func (d *Disk) Roles() (protocol.Roles, bool) {
	kept := d.read().Roles
	roles, err := protocol.ParseRoles(kept)
	return roles, err == nil && kept != nil
}

// read returns what is known now.
func (d *Disk) read() content {
	if d == nil {
		return content{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// SetRoles keeps the roles. After an error Roles still returns them, and KeepRoles tries again to
// write them.
func (d *Disk) SetRoles(roles protocol.Roles) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.Roles = roles.Names()
	return d.write(d.now)
}

// GiveConsensus adds the role consensus to the roles in the file at path, for a node that becomes
// the only etcd member (docs/clusters.md#restore). Without roles in the file it does nothing. No
// sidecar may use the file meanwhile.
func GiveConsensus(path string) error {
	d := NewDisk(path)
	if err := d.Load(); err != nil {
		return err
	}
	roles, known := d.Roles()
	if !known {
		return nil
	}
	roles.Consensus = true
	now := d.now
	now.Roles = roles.Names()
	return d.write(now)
}

// KeepRoles writes the newest roles if the file does not contain them.
func (d *Disk) KeepRoles() error { return d.change(func(*content) {}) }

// StartedFor returns the release for which services were last started; empty: none ever were, or it
// is not known.
func (d *Disk) StartedFor() string { return d.read().Release }

// SetStartedFor records that services are about to start for a release.
func (d *Disk) SetStartedFor(release string) error {
	return d.change(func(c *content) { c.Release = release })
}

// Started returns the units and pods that may run because this sidecar or an earlier one was about
// to start them.
func (d *Disk) Started() []service.Started { return slices.Clone(d.read().Started) }

// SetStarted records which units and pods may run. Call it before the first of them starts.
func (d *Disk) SetStarted(started []service.Started) error {
	return d.change(func(c *content) { c.Started = started })
}

// change writes a change, and keeps it if that works.
func (d *Disk) change(edit func(*content)) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now
	edit(&now)
	err := d.write(now)
	if err == nil {
		d.now = now
	}
	return err
}

// write needs the lock.
func (d *Disk) write(c content) error {
	if reflect.DeepEqual(c, d.kept) {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(d.path, append(text, '\n'), fileMode); err != nil {
		return err
	}
	d.kept = c
	return nil
}
