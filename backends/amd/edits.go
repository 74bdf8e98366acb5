package amd

import (
	"fmt"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/sdk"
)

// drmMajor is the major number of DRM's devices (DRM_MAJOR in include/drm/drm_drv.h).
const drmMajor = 226

// nodesOf returns the host's paths of a partition's own nodes.
func nodesOf(p gpu.Partition) []string {
	nodes := []string{fmt.Sprintf("/dev/dri/renderD%d", p.Render)}
	if p.Card != drm.None {
		nodes = append(nodes, fmt.Sprintf("/dev/dri/card%d", p.Card))
	}
	return nodes
}

// editsOf makes the edits of a partition: KFD's node, which all that compute share, and its own.
func editsOf(s devnode.Settings, devfs string, p gpu.Partition) (*sdk.Edits, error) {
	var nodes []devnode.Node
	if p.Computes() {
		nodes = append(nodes, devnode.Node{Path: "/dev/kfd"})
	}
	minors := []int{p.Render, p.Card}
	for i, path := range nodesOf(p) {
		nodes = append(nodes, devnode.Node{Path: path, Number: &devnode.Number{Major: drmMajor, Minor: uint32(minors[i])}})
	}
	return s.Edits(devfs, nodes...)
}
