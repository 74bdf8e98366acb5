package main

import (
	"errors"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// read are the files that the backend reads for an inventory, below sysfs.
var read = []string{
	"class/kfd/kfd/topology/generation_id", "class/kfd/kfd/topology/nodes/*/properties", "class/kfd/kfd/topology/nodes/*/gpu_id",
	"class/kfd/kfd/topology/nodes/*/mem_banks/*/properties", "class/kfd/kfd/topology/nodes/*/*_links/*/properties",
	"class/drm/card*[0-9]/dev", "class/drm/renderD*/dev", "module/amdgpu/version", "bus/pci/drivers/amdgpu/*/vendor",
	"bus/pci/drivers/amdgpu/*/device", "bus/pci/drivers/amdgpu/*/class", "bus/pci/drivers/amdgpu/*/numa_node",
	"bus/pci/drivers/amdgpu/*/revision", "bus/pci/drivers/amdgpu/*/unique_id", "bus/pci/drivers/amdgpu/*/product_name",
	"bus/pci/drivers/amdgpu/*/mem_info_vram_total", "bus/pci/drivers/amdgpu/*/*_partition",
}

// firstInventory is how long it takes from the start of the backend's process to its
// devices.
func firstInventory(bin string, starts int) (_ []rig.Figure, err error) {
	tree, remove, err := newMachine()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	backend := supervisor.Spec{Name: "amd", Command: "accelmux-backend-amd", Settings: []byte(`{"partitions": {"strategy": "mixed"}}`)}
	figure, err := rig.FirstInventory(bin, tree.Root, read, backend, partitions, starts, 20)
	if err != nil {
		return nil, err
	}
	return []rig.Figure{figure}, nil
}
