package cdi

import (
	"crypto/sha256"
	"encoding/hex"
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
	sideSuffix   = ".state"
)

// Names are the CDI names of the devices of one [Store.Publish]. They never
// change; safe for concurrent use. The nil Names has none.
type Names struct {
	names   map[inventory.Key]*given
	retryAt time.Time
}

// Qualified is the fully qualified CDI name of a device, such as
// "mock.accelmux.io/gpu=dev-1": what a new container is to be given. The error
// says why the device has none that a runtime could resolve; such a device must
// not be offered to containers by CDI.
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

// device returns the name of the device in the file of a kind, of which all qualified
// names have the prefix; "" if it has none.
func (n *Names) device(prefix string, key inventory.Key) string {
	if n == nil || n.names[key] == nil {
		return ""
	}
	name, ok := strings.CutPrefix(n.names[key].qualified, prefix)
	if !ok {
		return ""
	}
	return name
}

// RetryAt is when Publish should be called again though nothing changed, because
// a write failed; zero if there is no need.
func (n *Names) RetryAt() time.Time {
	if n == nil {
		return time.Time{}
	}
	return n.retryAt
}

// kind is what CDI calls a kind: the devices of one spec file.
type kind struct{ backend, class string }

// String is the CDI kind, <backend>.accelmux.io/<class>.
func (k kind) String() string { return k.backend + vendorSuffix + "/" + k.class }

func (k kind) qualified(device string) string { return k.String() + "=" + device }

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

// stem is the name of the kind's files without their suffix. Backends and
// classes may contain dashes, never underscores, so no two kinds share it.
func (k kind) stem() string {
	separator := "-"
	if strings.Contains(k.backend+k.class, "-") {
		separator = "_"
	}
	return filePrefix + k.backend + separator + k.class
}

func (k kind) specName() string { return k.stem() + specSuffix }

// parseKind is the inverse of [kind.String].
func parseKind(s string) (kind, bool) {
	vendor, class := parser.ParseQualifier(s)
	backend, ok := strings.CutSuffix(vendor, vendorSuffix)
	k := kind{backend: backend, class: class}
	return k, ok && k.check() == nil
}

// plainName is the name of a device in its spec: its ID, or if CDI does not
// allow that, something like it that no other device's ID leads to.
func plainName(id string) string {
	if parser.ValidateDeviceName(id) == nil {
		return id
	}
	return stemOf(id) + "_" + digest(id)
}

// derivedName is the name of another definition of the device than the one that
// the plain name has. Attempt counts up from 0 if it is taken.
func derivedName(id string, edits sum, attempt int) string {
	return stemOf(id) + "_" + digest(id, string(edits[:]), fmt.Sprint(attempt))
}

// stemOf is as much of the ID as may start a CDI device name.
func stemOf(id string) string {
	clean := strings.Map(func(r rune) rune {
		if parser.IsAlphaNumeric(r) || strings.ContainsRune("_-.:", r) {
			return r
		}
		return '-'
	}, id)
	clean = strings.TrimRight(strings.TrimLeft(clean, "_-.:"), "_-.:")
	if clean == "" {
		return "device"
	}
	return clean
}

// digest is a short hash of the parts, unambiguous about where they end.
func digest(parts ...string) string { return wideDigest(parts...)[:10] }

// wideDigest is a hash of the parts that no two lists of parts share.
func wideDigest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
