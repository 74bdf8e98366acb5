package resource

import (
	"strconv"
	"strings"
)

const (
	// replicaMark stands between a device's ID and the number of the replica. No
	// device ID contains it.
	replicaMark = "::"
	// maxUnitID is the length that kubelet's API allows for the ID of a device
	// (its comment on Device.ID; kubelet's code does not enforce it).
	maxUnitID = 63
)

// unitID is the ID of a replica as kubelet sees it.
func unitID(device string, replica int) string {
	return device + replicaMark + strconv.Itoa(replica)
}

// SplitUnitID takes the ID of a unit apart. For a replica ("GPU-1::3") it
// returns the device's ID, the number of the replica, from 0, and true; for any
// other ID the ID as it is, 0 and false.
func SplitUnitID(id string) (device string, replica int, ok bool) {
	i := strings.LastIndex(id, replicaMark)
	if i <= 0 {
		return id, 0, false
	}
	digits := id[i+len(replicaMark):]
	n, err := strconv.ParseUint(digits, 10, 31)
	// Only the one way to write a number that unitID uses.
	if err != nil || strconv.FormatUint(n, 10) != digits {
		return id, 0, false
	}
	return id[:i], int(n), true
}
