package deviceplugin

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

const (
	replicaMark = inventory.IDMark
	// maxUnitID is the length that kubelet's API allows for the ID of a device
	// (its comment on Device.ID; kubelet's code does not enforce it).
	maxUnitID = 63
)

// Unit is what kubelet counts as one device: a device, or one replica of it.
type Unit struct {
	// ID is the ID in kubelet's list: the device's ID, with ::N for a replica, N from 0.
	// SplitUnitID splits it.
	ID     string
	Device *inventory.Device
	// Verdict is the device's; all its replicas have the same.
	Verdict health.Verdict
}

// Units returns the units of a resource: in the order of its devices, and those of one
// device together, by replica.
func Units(r *resource.Resource) []Unit {
	units := make([]Unit, 0, len(r.Devices)*max(1, r.Replicas))
	for _, d := range r.Devices {
		if r.Replicas <= 1 {
			units = append(units, Unit{d.ID, d.Device, d.Verdict})
			continue
		}
		for n := range r.Replicas {
			units = append(units, Unit{unitID(d.ID, n), d.Device, d.Verdict})
		}
	}
	return units
}

// unitID returns the ID of a replica in kubelet's list.
func unitID(device string, replica int) string {
	return device + replicaMark + strconv.Itoa(replica)
}

// SplitUnitID splits the ID of a unit. For a replica ("GPU-1::3") it returns the device's ID,
// the number of the replica, from 0, and true; for any other ID the ID as it is, 0 and false.
func SplitUnitID(id string) (device string, replica int, ok bool) {
	i := strings.LastIndex(id, replicaMark)
	if i <= 0 {
		return id, 0, false
	}
	digits := id[i+len(replicaMark):]
	n, err := strconv.ParseUint(digits, 10, 31)
	// The digits must be those that unitID writes: no sign, no leading zero.
	if err != nil || strconv.FormatUint(n, 10) != digits {
		return id, 0, false
	}
	return id[:i], int(n), true
}

// longIDNotes reports units whose ID is longer than kubelet's API allows. They are
// advertised nevertheless: kubelet does not check the length, and no reader of a shortened ID
// could find its device.
func longIDNotes(r *resource.Resource) []string {
	if r.Replicas <= 1 {
		return nil
	}
	var long []string
	for _, d := range r.Devices {
		if len(unitID(d.ID, r.Replicas-1)) > maxUnitID {
			long = append(long, d.ID)
		}
	}
	if len(long) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("with %d replicas the IDs of %d devices (%s) become longer than the %d characters that kubelet's API allows; they are advertised all the same",
		r.Replicas, len(long), strings.Join(long[:min(3, len(long))], ", "), maxUnitID)}
}
