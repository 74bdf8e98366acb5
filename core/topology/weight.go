package topology

import "github.com/accelmux/accelmux/core/inventory"

// The points of links; the package comment has the table.
const (
	// sameDevice is the points of two parts of one device.
	sameDevice = 10_000
	// laneValue is the points of one lane of NVLink or XGMI.
	laneValue = 100
	// maxLanes are those that count; no device has more than 36 today.
	maxLanes = 64
	// farthest is the least of the driver's distances for which a link has only 1 point.
	farthest = 100
)

// pathValue returns the points of a path over PCIe, by NVML's levels
// (nvmlGpuTopologyLevel_t); 1 for an unknown kind.
func pathValue(kind string) int64 {
	switch kind {
	case "pcie_same_board":
		return 60
	case "pcie_switch":
		return 50
	case "pcie_multi_switch":
		return 40
	case "pcie_host_bridge":
		return 30
	case "same_numa":
		return 20
	case "cross_numa":
		return 10
	}
	return 1
}

// Value returns the points of one direction of a link, 1 or more.
func Value(l inventory.Link) int64 {
	switch {
	case l.Distance > 0:
		return max(1, farthest-int64(l.Distance))
	case l.Kind == "same_device":
		return sameDevice
	case l.Direct():
		return laneValue * int64(min(max(1, l.Count), maxLanes))
	}
	return pathValue(l.Kind)
}
