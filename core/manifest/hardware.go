package manifest

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/core/pcibus"
)

// HardwareOf returns what the manifests beside the programs in a directory serve on the PCI bus.
// Manifests that cannot be used, which are reported where they are, have none.
func HardwareOf(dir string) pcibus.Table {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var table pcibus.Table
	for _, entry := range entries {
		program, isManifest := strings.CutSuffix(entry.Name(), ".yaml")
		if _, err := os.Stat(filepath.Join(dir, program)); !isManifest || err != nil {
			continue
		}
		if m, err := Load(filepath.Join(dir, entry.Name())); err == nil {
			table = append(table, m.table()...)
		}
	}
	return table
}

// table returns the manifest's hardware.
func (m *Manifest) table() (table pcibus.Table) {
	for _, h := range m.Hardware {
		table = append(table, pcibus.Hardware{Backend: m.Description.Name, Vendor: h.Vendor, Device: h.Device, Class: h.Class})
	}
	return table
}
