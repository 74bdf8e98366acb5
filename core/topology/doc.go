// Package topology chooses which of a resource's units a pod should get: those that
// reach each other fast, on few NUMA nodes, and such that the next pod fares well too.
// It answers from memory. It does not know kubelet, configuration or health: who uses
// it says what is healthy and available, and what the policy is.
//
// [Prepare] makes a [Topology] of a resource's units, once for as long as their links
// stay as they are; [Topology.Refresh] takes over a change of health. [Topology.Choose]
// answers requests; any request has an answer. Where fewer units are available than
// asked for the answer is shorter, and kubelet adds what it has.
//
// # What is better
//
// A choice has all units that must be included, and as many as were asked for. Among
// those choices parts of a score are compared one after the other; a part counts only
// where all parts before it are equal.
//
//	best-links                    spread                         pack
//	1                             many physical devices          few physical devices
//	2                             few pairs on one of them       many pairs on one of them
//	3 few replicas of one device  few replicas of one device     many replicas of one device
//	4 great sum of the links      as best-links                  as best-links
//	5 strong weakest link         as best-links                  as best-links
//	6 few NUMA nodes              as best-links                  as best-links
//	7 replicas: little load       little load                    much load
//	8 many good sets left         as best-links                  as best-links
//	9 few physical devices
//	10 much load
//	11 the order of IDs           as best-links                  as best-links
//
// Choices that are equal in all parts are equally good: of these one is taken by the
// order of the IDs, always the same. Low IDs come first; that no other of these choices
// has lower ones is so only where all sets are compared (below).
//
// The policy none compares nothing but IDs. With [Options.WeakestFirst] part 5 comes
// before part 4.
//
// Links are those of all pairs of different devices, with their weights (below). A
// physical device is what partitions have as their parent; a device without a parent
// is one. A device whose NUMA node is unknown counts as one on a node of its own, and
// one on several nodes counts for all of them.
//
// Good sets left are those of 8, of 4 and of 2 devices that can be made of what remains,
// side by side: first those of 8 are counted, then those of 4, then those of 2, at last
// all pairs that are good, which are the most where what remains is together. A set is
// good if its weakest link is as strong as that of any set of its size on the whole
// node can be; and if one of those is on one NUMA node, it must be too. So a pod that
// asks for one of 64 partitions gets one of a GPU that is in use already, and the other
// GPUs remain whole. (Any one unit that is left is a good set of 1.) Replicas have no
// good sets: several of them are one device.
//
// The load of a physical device is how many of its units are in use, with those of the
// choice; that is, are not available. What is compared is the sum of the squares, which
// is least where all have the same. best-links wants little load on a device that has
// replicas, as the pods share it (there it counts by device, not by physical device),
// and else much on a GPU that has partitions, so that others stay whole.
//
// # Weights of links
//
// A pair has the lesser weight of its two directions. A pair without links, or with
// a link one way only, has weight 0: that is worse than any link.
//
//	kind                weight        less the driver's distance
//	same_device         1,000,000     up to 999
//	nvlink              10,000 a lane up to 999  (of 64 lanes at most)
//	nvswitch            10,000 a lane up to 999
//	xgmi                10,000 a lane up to 999
//	pcie_same_board         7,000     up to 999
//	pcie_switch             6,000     up to 999
//	pcie_multi_switch       5,000     up to 999
//	pcie_host_bridge        4,000     up to 999
//	same_numa               3,000     up to 999
//	cross_numa              2,000     up to 999
//	other                     999     up to 998  (1 if there is no distance)
//	none, or one way            0
//
// The kinds are those of the contract, where the PCIe kinds and the two of NUMA say
// where the closest common ancestor is. A driver's own distance (the weight of a link in
// Linux's KFD: 15 for one hop of XGMI) decides among links of one kind, and never makes
// a link look like one of the next worse kind. A kind that this package does not know is
// treated as other.
//
// # How it is found
//
// Most machines are hierarchies: partitions in GPUs in hives in sockets, GPUs at one
// switch, replicas of devices. Of any three devices, the two worst weights are equal,
// and the sets that count (physical devices, NUMA nodes, devices linked with some weight
// or more) contain each other or have nothing in common. That is found out by
// [Prepare]. There, every part of a score is a sum over these sets of what follows from
// how many units of the set are chosen, and the best choice is computed set by set,
// which is exact for any number of units in O(units x size) steps, and in O(units) where
// the policy spreads replicas. (Above 2^25 of the former the search below takes over.)
//
// Elsewhere all sets of a size are compared if there are 16 units or fewer (a 4x4 torus,
// NVIDIA's hybrid cube mesh): what each set counts for is in a table, so that is exact
// too.
//
// Beyond that, units that stand for each other (replicas; partitions with the same
// links) are made classes, and a search with bounds decides how many of each are chosen.
// One bound is a hierarchy again, in which no pair has less weight than it really has
// (single linkage): where its best choice is as good in truth, as it mostly is where a
// few links are missing, that is the proof. The search is exact, too, if it comes to its
// end. After [Options.TimeLimit] the best choice so far counts, and [Result.Missed] says
// how much greater the sum of the links of a choice that shares devices as well could be
// at most. The search does not count good sets left.
//
// Requests with the same IDs have the same answer, whatever the order of the IDs; but
// for a search that was out of time.
package topology
