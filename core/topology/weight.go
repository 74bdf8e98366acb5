package topology

import "github.com/accelmux/accelmux/core/inventory"

// The points of links; the package comment has the table.
const (
	// maxValue is what a pair counts for at most: two parts of one device, with a path
	// beside that.
	maxValue = sameDevice + 60
	// sameDevice is what two parts of one device count for.
	sameDevice = 10_000
	// laneValue is what one lane of NVLink or XGMI counts for.
	laneValue = 100
	// maxLanes are those that count; no device has more than 36 today.
	maxLanes = 64
	// farthest is the driver's distance from which on a link counts for 1 point.
	farthest = 100
)

// pathValue is what the way over PCIe counts for, by NVML's levels
// (nvmlGpuTopologyLevel_t); 1 for a kind that is not known.
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

// Value is how many points one direction of a link counts for, 1 or more.
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
