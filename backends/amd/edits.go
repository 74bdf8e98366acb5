package amd

import (
	"fmt"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/sdk"
)

// drmMajor is the number of DRM's devices (DRM_MAJOR in include/drm/drm_drv.h).
const drmMajor = 226

// Codes of the faults of a single partition: one of its device nodes is missing, or the
// kernel shows only a part of a partition that was listed.
const nodeMissing, partitionIncomplete = "node-missing", "partition-incomplete"

// given is what a container gets with a device, or the fault for which it gets nothing.
type given struct {
	edits *sdk.Edits
	fault *sdk.Health
}

// nodesOf are the host's paths of a partition's own nodes.
func nodesOf(p gpu.Partition) []string {
	nodes := []string{fmt.Sprintf("/dev/dri/renderD%d", p.Render)}
	if p.Card != drm.None {
		nodes = append(nodes, fmt.Sprintf("/dev/dri/card%d", p.Card))
	}
	return nodes
}

// giving makes the edits of a partition: KFD's node, which all share, and its own.
func giving(s devnode.Settings, devfs string, p gpu.Partition) given {
	nodes := []devnode.Node{{Path: "/dev/kfd"}}
	minors := []int{p.Render, p.Card}
	for i, path := range nodesOf(p) {
		nodes = append(nodes, devnode.Node{Path: path, Number: &devnode.Number{Major: drmMajor, Minor: uint32(minors[i])}})
	}
	edits, err := s.Edits(devfs, nodes...)
	if err != nil {
		return given{fault: sdk.Fault(nodeMissing, sdk.RecoverySelf, err.Error())}
	}
	return given{edits: edits}
}
