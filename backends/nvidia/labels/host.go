package labels

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

const vendorNVIDIA = 0x10de

// host is the machine's data for the labels.
type host struct {
	// machine is the name of the product in the machine's DMI table.
	machine string
	vgpu    *vgpu // nil on a machine without one
}

// vgpu is the driver on the hypervisor of a virtual GPU in a guest.
type vgpu struct{ version, branch string }

// readHost reads sysfs; what cannot be read is left out.
func readHost(sysfs string) host {
	var h host
	if name, err := head(filepath.Join(sysfs, "class/dmi/id/product_name"), 256); err == nil {
		h.machine = strings.TrimSpace(string(name))
	}
	devices, _ := pci.List(sysfs, vendorNVIDIA, classVGA>>8, class3D>>8) // unreadable devices are left out
	for _, d := range devices {
		config, err := head(filepath.Join(sysfs, "bus/pci/devices", d.Address.String(), "config"), configSize)
		if err != nil {
			continue
		}
		if v := hostDriver(config); v != nil {
			h.vgpu = v
			break
		}
	}
	return h
}

func head(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, limit))
}

// The PCI configuration space (PCI Local Bus Specification, 6.1 and 6.7), and NVIDIA's own
// capability in that of a virtual GPU: the signature "VF", then records, each with its type,
// its length in bytes, and data. Type 0 is the driver on the hypervisor: its version and its
// branch in 10 bytes each.
const (
	configSize = 256

	statusOffset   = 0x06
	statusList     = 0x10 // the space has a list of capabilities
	listOffset     = 0x34
	vendorSpecific = 0x09
	maxSteps       = 48 // capabilities are at least 4 bytes long, and begin at 0x40

	recordsOffset = 5
	hostRecord    = 0
	fieldSize     = 10
)

// hostDriver returns the driver on the hypervisor from a configuration space; nil if the space
// is not that of a virtual GPU. Only root can read enough of it.
func hostDriver(config []byte) *vgpu {
	if len(config) < configSize || config[statusOffset]&statusList == 0 {
		return nil
	}
	at := int(config[listOffset])
	for range maxSteps {
		if at == 0 || at+3 > len(config) {
			return nil
		}
		if config[at] == vendorSpecific {
			return hostOf(config[at:min(at+int(config[at+2]), len(config))])
		}
		at = int(config[at+1])
	}
	return nil
}

// hostOf reads NVIDIA's own capability.
func hostOf(capability []byte) *vgpu {
	if len(capability) < recordsOffset || string(capability[3:recordsOffset]) != "VF" {
		return nil
	}
	records := capability[recordsOffset:]
	for len(records) >= 2 {
		kind, length := records[0], int(records[1])
		if kind == hostRecord && len(records) >= 2+2*fieldSize {
			text := func(b []byte) string { return string(bytes.Trim(b, "\x00")) }
			return &vgpu{text(records[2 : 2+fieldSize]), text(records[2+fieldSize : 2+2*fieldSize])}
		}
		if length < 2 || length > len(records) {
			break
		}
		records = records[length:]
	}
	return nil
}
