package topology

import "github.com/accelmux/accelmux/core/inventory"

// The scale of weights; the package comment has the whole table. The steps are
// wider than what a distance takes away, so that no distance makes a kind look like
// a worse one.
const (
	// MaxWeight is that of two parts of one device: no link has more.
	MaxWeight = 1_000_000
	// laneWeight is that of one lane of NVLink or XGMI.
	laneWeight = 10_000
	// maxLanes are those that count; no device has more than 36 today.
	maxLanes = 64
	// maxDistance is how much a driver's distance takes away at most.
	maxDistance = 999
	// otherWeight is where a vendor's own kind starts: below every kind that says
	// something.
	otherWeight = 999
)

// kindWeight is that of a kind that does not count lanes; 0 for others.
func kindWeight(kind string) int64 {
	switch kind {
	case "same_device":
		return MaxWeight
	case "pcie_same_board":
		return 7_000
	case "pcie_switch":
		return 6_000
	case "pcie_multi_switch":
		return 5_000
	case "pcie_host_bridge":
		return 4_000
	case "same_numa":
		return 3_000
	case "cross_numa":
		return 2_000
	}
	return 0
}

// Weight is how much one direction of a link is worth: from 1, the farthest, to
// [MaxWeight]. A pair without a link both ways has 0.
func Weight(l inventory.Link) int64 {
	distance := int64(max(0, l.Distance))
	switch l.Kind {
	case "nvlink", "nvswitch", "xgmi":
		lanes := int64(min(max(1, l.Count), maxLanes))
		return lanes*laneWeight - min(distance, maxDistance)
	}
	if base := kindWeight(l.Kind); base > 0 {
		return base - min(distance, maxDistance)
	}
	if distance == 0 {
		return 1
	}
	return max(1, otherWeight-distance)
}
