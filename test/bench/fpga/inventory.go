package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

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

// firstInventory is how long it takes from the start of a backend's process to its
// devices. The mock backend, which reads nothing, and cat of the files that the FPGA
// backend reads are the floor, taken in turn.
func firstInventory(bin string, starts int) (_ []rig.Figure, err error) {
	tree, remove, err := newMachine()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var files []string
	for _, pattern := range read {
		matches, err := filepath.Glob(filepath.Join(tree.Sysfs(), pattern))
		if err != nil || len(matches) == 0 {
			return nil, fmt.Errorf("no file is %s: %w", pattern, err)
		}
		files = append(files, matches...)
	}
	mock := supervisor.Spec{Name: "mock", Command: "accelmux-backend-mock", Settings: fmt.Appendf(nil, `{"count": %d}`, cards)}
	fpga := supervisor.Spec{Name: "fpga", Command: "accelmux-backend-fpga"}
	var floors, all, cats, beyond []time.Duration
	for range starts {
		floor, err := rig.First(bin, tree.Root, mock, cards)
		if err != nil {
			return nil, err
		}
		took, err := rig.First(bin, tree.Root, fpga, cards)
		if err != nil {
			return nil, err
		}
		reading, err := rig.Cat(files)
		if err != nil {
			return nil, err
		}
		floors, all, cats = append(floors, floor), append(all, took), append(cats, reading)
		beyond = append(beyond, took-floor-reading)
	}
	return []rig.Figure{{
		What: "first inventory, beyond cat and the floor", Value: rig.Milliseconds(rig.Median(beyond)), Limit: 20, Unit: "ms",
		Floor: rig.Milliseconds(rig.Median(floors)), FloorIs: "all of the mock backend's", Beyond: true,
		Note: fmt.Sprintf("%d starts, %.1f ms in all, cat of %d files %.1f ms", starts,
			rig.Milliseconds(rig.Median(slices.Clone(all))), len(files), rig.Milliseconds(rig.Median(cats))),
	}}, nil
}
