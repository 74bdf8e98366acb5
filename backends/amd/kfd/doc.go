// Package kfd reads the topology of the kernel's driver for compute on AMD GPUs
// (amdkfd): /sys/class/kfd/kfd/topology with its nodes, their memory and the links
// between them. It only reads and parses: which PCI function, DRM device or partition
// a node is of, gpu says.
//
// A node that cannot be read costs that node, a link that cannot be read that link;
// each is a [Problem] that names the file. Facts are from the driver,
// drivers/gpu/drm/amd/amdkfd/kfd_topology.c, and captures of real machines.
package kfd
