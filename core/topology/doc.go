// Package topology chooses which of a resource's units a pod should get: those that
// reach each other fast, on few NUMA nodes, and such that the next pod fares well too.
// It answers from memory. It does not know kubelet, configuration or health: the caller
// passes what is healthy and available, and the policy.
//
// [Prepare] makes a [Topology] of a resource's units, once for as long as their links
// stay as they are; [Topology.Refresh] applies a change of health. [Topology.Choose]
// answers requests; any request has an answer. Where fewer units are available than
// asked for the answer is shorter, and kubelet adds what it has.
//
// # What is better
//
// A choice has all units that must be included, and as many as were asked for. Among
// those choices parts of a score are compared one after the other; a part counts only
// where all parts before it are equal.
//
//	best-links            best-links, replicas  spread                pack
//	                                            many physicalDevices  few physicalDevices
//	                                            few pairsTogether     many pairsTogether
//	                      few repeatedDevices   few repeatedDevices   many repeatedDevices
//	great sumOfLinks      great sumOfLinks      great sumOfLinks      great sumOfLinks
//	strong weakestLink    strong weakestLink    strong weakestLink    strong weakestLink
//	few numaNodes         few numaNodes         few numaNodes         few numaNodes
//	few physicalDevices   little load           little load           much load
//	great linksLeft       great linksLeft       great linksLeft       great linksLeft
//	much load
//	lowest IDs            lowest IDs            lowest IDs            lowest IDs
//
// The policy none compares nothing but IDs. With [Options.WeakestFirst] weakestLink comes
// before sumOfLinks.
//
//   - physicalDevices: a device without a parent, or what partitions have as their parent.
//     pairsTogether are pairs of units on one physical device, repeatedDevices pairs of
//     replicas of one device.
//   - sumOfLinks: the points (below) of all pairs of different devices. weakestLink: the
//     least of these; -1 if there is no pair, which is better than any.
//   - numaNodes: a device on several counts for each, a unit whose node is unknown for one
//     of its own. Of more than 64 nodes the last are one.
//   - load: how many units in use there are on the physical devices of the chosen units,
//     summed up over these. Where replicas are shared by best-links it is their device that
//     counts.
//   - linksLeft: the points of all pairs that remain available, and 1 more for each pair on
//     the same NUMA nodes. So a container takes devices that have lost their neighbours
//     already, and of partitions those of the GPU with the fewest left.
//
// # The points of a pair
//
// A pair counts for the sum of its direct link and its path over PCIe, as in NVIDIA's own
// allocator (go-gpuallocator):
//
//	direct link                     path
//	nvlink        100 a lane        pcie_same_board    60
//	nvswitch      100 a lane        pcie_switch        50
//	xgmi          100 a lane        pcie_multi_switch  40
//	same_device   10,000            pcie_host_bridge   30
//	none          0                 same_numa          20
//	                                cross_numa         10
//	                                other, unknown      1
//	                                none                0
//
// A link of either sort for which the driver has a distance (the weight of a link in
// Linux's KFD, as AMD's device plugin uses it: 15 for one hop of XGMI, 72 across sockets)
// counts for 100 less the distance instead, and for 1 at least: so the sum of the points is
// greatest where the sum of the distances is least. At most 64 lanes count. A pair has the
// lesser points of its two directions; one without links, or with links one way only, has
// none.
//
// # How it is found
//
// Among up to 16 units all sets of a size are compared: [Prepare] makes a table with the
// score of each set. No other set is better.
//
// Among more units of a hierarchy (partitions of GPUs, GPUs at PCIe switches and sockets;
// all whose links between any two parts are equal, and whose NUMA nodes and physical devices
// are parts) the best set of each size in a part follows from those of its two halves. No
// other set is better. Up to 4,096 devices are always within the bound on the work. The greedy
// choice below does not do as well: of requests of every size for the 63 partitions of a machine
// with MI300X it misses the best set in more than half with best-links and pack, and of those for
// a DGX H100 whose GPUs have seven parts each, some in use, in two of five.
//
// Among all others, such as replicas or partitions of a mesh, a set begins with a unit of
// one device, and a unit of the device that adds most is added until the set is complete.
// This is done with each device as the beginning, as far as a fixed amount of work allows.
// In the best set units are replaced one by one as long as that makes a better one. It is
// marked: another set may be better.
//
// There is no clock: requests with the same IDs have the same answer, in any order of the
// IDs.
package topology
