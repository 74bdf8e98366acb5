package main

import (
	"errors"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// read are the files that the backend reads for an inventory, below sysfs. Sensors are
// read beside it.
var read = []string{
	"bus/pci/devices/*/vendor", "bus/pci/devices/*/device", "bus/pci/devices/*/class", "bus/pci/devices/*/numa_node",
	port + "dev", port + "id", port + "afu_id", port + "power_state", port + "errors/*",
	engine + "dev", engine + "bitstream_id", engine + "bitstream_metadata", engine + "ports_num", engine + "socket_id", engine + "errors/*",
	engine + "dfl-fme-region.*/fpga_region/region*/compat_id", engine + "dfl-fme-mgr.*/fpga_manager/fpga*/state",
	engine + "dfl_dev.*/nios_fw_version", engine + "dfl_dev.*/subdev_spi_altera.*/spi_master/spi*/spi*/bmc*_version",
}

// port and engine are where those of a card are.
const (
	port   = "bus/pci/devices/*/fpga_region/region*/dfl-port.*/"
	engine = "bus/pci/devices/*/fpga_region/region*/dfl-fme.*/"
)

// firstInventory is how long it takes from the start of the backend's process to its
// devices.
func firstInventory(bin string, starts int) (_ []rig.Figure, err error) {
	tree, remove, err := newMachine()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	backend := supervisor.Spec{Name: "fpga", Command: "accelmux-backend-fpga"}
	figure, err := rig.FirstInventory(bin, tree.Root, read, backend, cards, starts, 20)
	if err != nil {
		return nil, err
	}
	return []rig.Figure{figure}, nil
}
