package manager

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// place identifies a device, whatever its number and the order of discovery.
type place struct {
	// path is unique: in the device tree, below a PCI function, or among devices.
	path string
	// label is its end, for people.
	label string
	// exact: the label alone identifies the device.
	exact bool
}

// placeOf returns the place of a device that is at a directory below /sys/devices; node is
// where it is in the device tree, empty for none.
func placeOf(dir, node string, function *pci.Address) place {
	if node != "" {
		return place{path: "of:" + node, label: filepath.Base(node)}
	}
	var parts []string
	for part := range strings.SplitSeq(dir, "/") {
		if at, err := pci.ParseAddress(part); err == nil && function != nil && at == *function {
			parts = nil
			continue
		}
		parts = append(parts, steady(part))
	}
	rest := strings.Trim(strings.Join(parts, "/"), "/")
	if function == nil {
		return place{path: rest, label: filepath.Base(rest)}
	}
	label := strings.NewReplacer(":", "-", ".", "-").Replace(function.String())
	return place{path: function.String() + "/" + rest, label: label, exact: rest == ""}
}

// What the kernel numbers as it finds them, in names of devices: platform devices
// (dma.3.auto), buses (spi4, spi4.0, usb1), addresses on them (1-0040 on I2C, 1-2.3 on USB), and devices of
// classes (region3).
var (
	auto    = regexp.MustCompile(`\.[0-9]+\.auto$`)
	bus     = regexp.MustCompile(`^(spi|i2c-|usb)[0-9]+`)
	onBus   = regexp.MustCompile(`^[0-9]+(-[0-9a-f.:]+)$`)
	classed = regexp.MustCompile(`^(region|fpga)[0-9]+$`)
)

func steady(part string) string {
	part = auto.ReplaceAllString(part, ".auto")
	part = bus.ReplaceAllString(part, "$1")
	part = onBus.ReplaceAllString(part, "$1")
	return classed.ReplaceAllString(part, "$1")
}

// id returns the ID of a card: fpga-<label>-<hash of the place>, at most 44 bytes; for what
// is itself a PCI function fpga-<address>.
func (p place) id() string {
	if p.exact {
		return "fpga-" + p.label
	}
	return "fpga-" + clip(slug(p.label), 30) + "-" + p.hash()
}

// hash distinguishes places with the same label.
func (p place) hash() string {
	sum := sha256.Sum256([]byte(p.path))
	return hex.EncodeToString(sum[:4])
}

// slug returns a text for names: lower-case letters and digits, and single dashes between
// them. It is never empty.
func slug(text string) string {
	var b strings.Builder
	dash := false
	for _, c := range strings.ToLower(text) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(c)
			dash = false
			continue
		}
		dash = true
	}
	if b.Len() == 0 {
		return "unnamed"
	}
	return b.String()
}

// clip returns the beginning of a slug.
func clip(s string, limit int) string {
	return strings.TrimRight(s[:min(len(s), limit)], "-")
}

// regionName returns the name of the resource of regions, at most 63 bytes: by what
// bitstreams must fit, else by the kind of the manager, and for one of several regions
// by its label, too.
func regionName(compat, model, label string) string {
	switch {
	case compat != "":
		return "region-" + compat
	case label == "":
		return "region-" + clip(slug(model), 56)
	}
	return "region-" + clip(slug(model), 35) + "-" + clip(slug(label), 20)
}
