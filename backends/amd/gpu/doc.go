// Package gpu finds the AMD GPUs of a machine and their partitions. It joins what the
// kernel reports in four places:
//
//	PCI driver amdgpu   the cards: unique_id, partition modes, memory
//	DRM class           which render and card node is of which card or platform device
//	platform devices    amdgpu_xcp_N, the DRM devices of partitions
//	KFD topology        the partitions: compute units, memory, links, render minor
//
//	KFD node ──render minor──► DRM device ──► PCI card
//	    │                          └────────► platform device
//	    └──unique_id, PCI location──────────► its PCI card
//
// What two places report of one thing must agree. A card or a partition that answers only in
// part, or of which they report different things, is left out with a [Problem]; the others
// stay. Platform devices without a KFD node are no problem: the driver makes them for the mode
// with the most partitions.
//
// The package opens no device, and stores nothing between calls.
package gpu
