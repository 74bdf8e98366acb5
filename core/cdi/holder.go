package cdi

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// A holder's own definition has what Prepare returned for one container, which no other
// container of its devices may get. Its name follows from the units that the container was
// given: kubelet gives a unit to one container at a time, and each start of a container
// begins with Prepare, which writes the definition again. So what kubelet has stored can be
// resolved whatever was lost, and nothing has to be on disk before an allocation is
// answered. An init container and the container that has the same units after it share a
// name, and use it one after the other.

// holderClass is in the place of a device class in the kind of holders' own definitions;
// no backend may have a device class of that name.
const holderClass = "holder"

var errClosed = errors.New("the CDI store is closed")

// HolderName returns the fully qualified CDI name of a holder's own definition, such as
// "mock.accelmux.io/holder=0f3c9a51be": of the container that was given these units of the
// resource, whose devices belong to the backend. The order of the units does not matter.
func HolderName(backend, resource string, units []string) string {
	sorted := slices.Sorted(slices.Values(units))
	return kind{backend, holderClass}.qualified(wideDigest(append([]string{resource}, sorted...)...))
}

// HolderDefinition is what a holder alone gets.
type HolderDefinition struct {
	// Name is as HolderName returns it.
	Name string
	// Device is one of the holder's devices, of the backend in the name: while it is held,
	// the definition stays, also over a restart.
	Device inventory.Key
	// Edits are those of the holder's devices. Of two of the same thing the later counts.
	Edits []inventory.Edits
}

// Define writes a holder's own definition, which replaces the one before. It is on disk
// when Define returns nil. The device's other definitions of holders are removed, but those
// that live reports; live must not call the store.
func (s *Store) Define(d HolderDefinition, live func(name string) bool) error {
	whole := toCDI(inventory.Edits{})
	for _, edits := range d.Edits {
		whole = compose(whole, toCDI(edits))
	}
	k := kind{d.Device.Backend, holderClass}
	_, name, _ := strings.Cut(d.Name, "=")
	if err := checkEdits(whole); errors.Is(err, errNoEdits) {
		whole.Env = []string{"ACCELMUX_HOLDER=" + name} // a CDI device has at least one edit
	} else if err != nil {
		return fmt.Errorf("what Prepare returned cannot be defined for CDI: %w", err)
	}
	text, err := encode(whole)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if err := s.own(k.backend); err != nil {
		return err
	}
	next := s.otherHolders(k, d.Device, live)
	next[name] = &definition{key: d.Device, base: read(text)}
	if len(text) > maxEdits || next.size() > s.room(k) {
		return fmt.Errorf("the container edits that Prepare returned have %d bytes as JSON; at most %d are allowed, and %d for all devices of backend %s",
			len(text), maxEdits, maxSpecs, k.backend)
	}
	return s.commitHolders(k, next)
}

// Undefine removes the holders' own definitions that belong to the device, but those that
// live reports; live must not call the store.
func (s *Store) Undefine(device inventory.Key, live func(name string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kind{device.Backend, holderClass}
	switch {
	case s.closed:
		return errClosed
	case s.files[k] == nil:
		return nil
	}
	return s.commitHolders(k, s.otherHolders(k, device, live))
}

// otherHolders returns the definitions of holders without those of the device that are not
// live. The caller holds s.mu.
func (s *Store) otherHolders(k kind, device inventory.Key, live func(name string) bool) definitions {
	next := definitions{}
	if f := s.files[k]; f != nil {
		maps.Copy(next, f.defs)
	}
	maps.DeleteFunc(next, func(name string, d *definition) bool { return d.key == device && !live(k.qualified(name)) })
	return next
}

// commitHolders makes the disk have these definitions of holders. The caller holds s.mu.
func (s *Store) commitHolders(k kind, next definitions) error {
	f := s.files[k]
	if f == nil {
		f = &specFile{kind: k, dir: s.opts.Dir}
		s.files[k] = f
	}
	if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
		return err
	}
	if err := s.commit(f, next); err != nil {
		return fmt.Errorf("write the CDI definitions of holders: %w", err)
	}
	return nil
}
