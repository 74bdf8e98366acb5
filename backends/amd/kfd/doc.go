// Package kfd reads the topology of the kernel's driver for compute on AMD GPUs
// (amdkfd): /sys/class/kfd/kfd/topology with its nodes, their memory and the links
// between them. It only reads and parses; package gpu finds the PCI function, DRM
// device or partition of a node.
//
// A node or a link that cannot be read is left out, with a [Problem] that names the file. Facts are from the driver,
// drivers/gpu/drm/amd/amdkfd/kfd_topology.c, and captures of real machines.
package kfd
