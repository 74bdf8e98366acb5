package cdi

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/inventory"
)

// A holder's own definition has the edits of one holder, which no other holder of its devices may
// get.
//
// That for a claim has all edits of one device.
//
// That for a container has the edits that Prepare returned. Its name follows from the units that
// the container got: kubelet allocates a unit to one container at a time, and each start of a
// container begins with Prepare, which writes the definition again. So the names that kubelet has
// stored can always be defined again, and an allocation is answered without a write. An init
// container and the container that has the same units after it share a name, and use it one
// after the other.

// holderClass is the class in the kind of holders' own definitions; no backend may have a
// device class of that name.
const holderClass = "holder"

var errClosed = errors.New("the CDI store is closed")

// HolderName returns the fully qualified CDI name of the own definition of the container that
// got these units of the resource, such as "mock.accelmux.io/holder=dev-1::0f3c9a51be...". The
// order of the units does not matter. The device is one of the holder's: while it is held, the
// definition stays, also over a restart.
func HolderName(device inventory.Key, resource string, units []string) string {
	sorted := slices.Sorted(slices.Values(units))
	return kind{device.Backend, holderClass}.qualified(device.ID + idEnd + digest(append([]string{resource}, sorted...)...))
}

// ClaimName returns the fully qualified CDI name of a device for one claim, such as
// "mock.accelmux.io/holder=dev-1::<the claim's UID>". No other claim has that name at any time.
func ClaimName(device inventory.Key, uid string) string {
	return kind{device.Backend, holderClass}.qualified(device.ID + idEnd + uid)
}

// ParseHolderName returns the device of a holder's own definition, and what follows it in the name:
// of a claim, that is the UID. Both are zero for another name.
func ParseHolderName(name string) (device inventory.Key, of string) {
	qualifier, name, _ := strings.Cut(name, "=")
	k, ok := parseKind(qualifier)
	end := strings.LastIndex(name, idEnd)
	if !ok || k.class != holderClass || end < 0 {
		return inventory.Key{}, ""
	}
	return k.key(name[:end]), name[end+len(idEnd):]
}

// HolderDefinition is a holder's own definition.
type HolderDefinition struct {
	// Name is as HolderName or ClaimName returns it.
	Name string
	// Device is the one in the name.
	Device inventory.Key
	// Edits are those of the holder's devices. Of two with the same name or path the later
	// counts.
	Edits []inventory.Edits
	// Content, if not "", is used in place of Edits, which are then only checked; without Edits, as of
	// a definition that an earlier run stored, Content is. For Define it is what Encode returned in this
	// run; for Encode it may be what an earlier run stored.
	Content string
}

// Define writes a holder's own definitions, which replace those before. They are on disk when the error
// is nil. The devices' other definitions of holders are removed unless live reports them; live must not
// call the store.
func (s *Store) Define(all []HolderDefinition, live func(name string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	next := map[kind]definitions{} // a claim's devices are of one backend, and written once
	onHost := s.opts.OnHost()
	for _, d := range all {
		for _, e := range d.Edits {
			if _, err := onHost(d.Device.Backend, e); err != nil {
				return notDefined(d.Device, err)
			}
		}
		content, err := d.Content, error(nil)
		if content == "" {
			content, err = d.Encode()
		}
		if err != nil {
			return err
		}
		k := kind{d.Device.Backend, holderClass}
		if next[k] == nil {
			if err := s.own(k.backend); err != nil {
				return err
			}
			next[k] = s.holders(k)
		}
		next[k].removeOthers(k, d.Device, live)
		_, name, _ := strings.Cut(d.Name, "=")
		if len(d.Edits) == 0 && s.holders(k)[name] != content {
			if err := s.stillAllowed(k)(content); err != nil {
				return notDefined(d.Device, err)
			}
		}
		next[k][name] = content
		if len(content) > maxEdits || next[k].size() > s.room(k) {
			return fmt.Errorf("device %s: the container edits that Prepare returned have %d bytes as JSON; at most %d are allowed, and %d for all devices of backend %s",
				d.Device, len(content), maxEdits, maxSpecs, k.backend)
		}
	}
	return s.commitHolders(next)
}

// Encode returns the definition's content: its edits as in a CDI spec file.
func (d HolderDefinition) Encode() (string, error) {
	edits, err := d.edits()
	if err == nil {
		err = checkEdits(edits)
	}
	if errors.Is(err, errNoEdits) {
		_, name, _ := strings.Cut(d.Name, "=")
		edits.Env, err = []string{"ACCELMUX_HOLDER=" + name}, nil // a CDI device has at least one edit
	}
	if err != nil {
		return "", fmt.Errorf("device %s: the edits that Prepare returned cannot be defined for CDI: %w", d.Device, err)
	}
	return encodeEdits(edits)
}

// edits returns what the definition has.
func (d HolderDefinition) edits() (*specs.ContainerEdits, error) {
	if d.Content != "" {
		return decodeEdits(d.Content)
	}
	edits := toCDI(inventory.Edits{})
	for _, e := range d.Edits {
		edits = compose(edits, toCDI(e))
	}
	return edits, nil
}

// Undefine removes the holders' own definitions that belong to the devices, unless live reports
// them; live must not call the store. Publish removes those of devices that are not held, also after an
// error.
func (s *Store) Undefine(devices []inventory.Key, live func(name string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	next := map[kind]definitions{}
	for _, device := range devices {
		k := kind{device.Backend, holderClass}
		if s.files[k] == nil {
			continue
		}
		if next[k] == nil {
			next[k] = s.holders(k)
		}
		next[k].removeOthers(k, device, live)
	}
	return s.commitHolders(next)
}

// holders returns a copy of the definitions of holders. The caller holds s.mu.
func (s *Store) holders(k kind) definitions {
	if f := s.files[k]; f != nil && f.defs != nil {
		return maps.Clone(f.defs)
	}
	return definitions{}
}

// removeOthers removes the definitions of holders that belong to the device and are not live.
func (d definitions) removeOthers(k kind, device inventory.Key, live func(name string) bool) {
	maps.DeleteFunc(d, func(name, _ string) bool { return deviceID(name) == device.ID && !live(k.qualified(name)) })
}

// commitHolders writes these definitions of holders. The caller holds s.mu.
func (s *Store) commitHolders(next map[kind]definitions) error {
	for k, definitions := range next {
		if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
			return err
		}
		if err := s.commit(s.file(k), definitions); err != nil {
			return fmt.Errorf("write the CDI definitions of holders: %w", err)
		}
	}
	return nil
}
