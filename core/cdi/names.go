package cdi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/accelmux/accelmux/core/inventory"
)

const (
	vendorSuffix = ".accelmux.io"
	filePrefix   = "accelmux-"
	specSuffix   = ".json"
	idEnd        = inventory.IDMark
)

// Names are the CDI names of the devices of one [Store.Publish]. They never
// change; safe for concurrent use. The nil Names has none.
type Names struct {
	names   map[inventory.Key]name
	retryAt time.Time
}

// name is the fully qualified name of a device's current definition, "" if there is none.
// With an error, new containers cannot get the device by it.
type name struct {
	qualified string
	err       error
}

// Qualified returns the fully qualified CDI name of a device for new containers, such as
// "mock.accelmux.io/gpu=dev-1". With an error, which has the reason, no runtime could resolve
// a name, and the device must not be offered to containers by CDI.
func (n *Names) Qualified(key inventory.Key) (string, error) {
	if n != nil {
		if found, ok := n.names[key]; ok {
			if found.err != nil {
				return "", found.err
			}
			return found.qualified, nil
		}
	}
	return "", fmt.Errorf("device %s has no CDI definition", key)
}

// device returns the device's name in the file of a kind, "" if it has none there.
func (n *Names) device(k kind, id string) string {
	if n == nil {
		return ""
	}
	device, ok := strings.CutPrefix(n.names[k.key(id)].qualified, k.qualified(""))
	if !ok {
		return ""
	}
	return device
}

// RetryAt is when Publish should be called again though nothing changed, because
// a write failed; zero if there is no need.
func (n *Names) RetryAt() time.Time {
	if n == nil {
		return time.Time{}
	}
	return n.retryAt
}

// kind is the CDI kind of the devices of one spec file.
type kind struct{ backend, class string }

// String is the CDI kind, <backend>.accelmux.io/<class>.
func (k kind) String() string { return k.backend + vendorSuffix + "/" + k.class }

func (k kind) qualified(device string) string { return k.String() + "=" + device }

// key returns the key of the backend's device with that ID.
func (k kind) key(id string) inventory.Key { return inventory.Key{Backend: k.backend, ID: id} }

// check refuses what CDI does not allow as a kind.
func (k kind) check() error {
	if err := parser.ValidateVendorName(k.backend + vendorSuffix); err != nil {
		return fmt.Errorf("backend %q cannot be part of a CDI name: %w; give it another name in the configuration", k.backend, err)
	}
	if err := parser.ValidateClassName(k.class); err != nil {
		return fmt.Errorf("device class %q cannot be part of a CDI name: %w", k.class, err)
	}
	return nil
}

// fileName returns the name of the kind's spec file. Backends and classes may contain dashes,
// never underscores, so no two kinds share it.
func (k kind) fileName() string {
	separator := "-"
	if strings.Contains(k.backend+k.class, "-") {
		separator = "_"
	}
	return filePrefix + k.backend + separator + k.class + specSuffix
}

// kindOfFile is the inverse of [kind.fileName].
func kindOfFile(file string) (kind, bool) {
	stem := strings.TrimSuffix(strings.TrimPrefix(file, filePrefix), specSuffix)
	separator := "-"
	if strings.Contains(stem, "_") {
		separator = "_"
	}
	backend, class, ok := strings.Cut(stem, separator)
	k := kind{backend: backend, class: class}
	return k, ok && k.check() == nil && k.fileName() == file
}

// parseKind is the inverse of [kind.String].
func parseKind(s string) (kind, bool) {
	vendor, class := parser.ParseQualifier(s)
	backend, ok := strings.CutSuffix(vendor, vendorSuffix)
	k := kind{backend: backend, class: class}
	return k, ok && k.check() == nil
}

// A device name in a spec is the device's ID, or the ID, idEnd and more. The last idEnd
// counts, because an ID may end in a colon.

// plainName returns the device's ID, which CDI allows unless it ends in punctuation.
func plainName(id string) string {
	if parser.ValidateDeviceName(id) == nil {
		return id
	}
	return id + idEnd + "id"
}

// derivedName returns the name of a further definition of the device, with these edits.
func derivedName(id, text string) string { return id + idEnd + digest(text) }

// deviceID returns the ID of the device that a name belongs to.
func deviceID(name string) string {
	if end := strings.LastIndex(name, idEnd); end >= 0 {
		return name[:end]
	}
	return name
}

// checkID refuses a device ID of which no name could be made.
func checkID(id string) error {
	if strings.Contains(id, idEnd) {
		return errors.New(`its ID contains "::"`)
	}
	return parser.ValidateDeviceName(plainName(id))
}

// digest returns a hash of the parts that no two lists of parts share.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
