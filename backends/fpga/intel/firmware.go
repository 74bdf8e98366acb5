package intel

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/accelmux/accelmux/backends/fpga/driver"
)

// firmwareFiles have the versions of the board's controller.
var firmwareFiles = []string{"bmc_version", "bmcfw_version", "nios_fw_version"}

// forget drops versions of other cards.
func (f *firmwares) forget(root string, cards []Card) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := map[string]firmware{}
	for _, c := range cards {
		dir := filepath.Join(root, c.Dir)
		if known, ok := f.of[dir]; ok {
			left[dir] = known
		}
	}
	f.of = left
}

// versions returns the versions of a card's controllers, cached after the first read.
func (r *reader) versions(device, region string, chips []string, engine string) map[string]string {
	var inode uint64
	if info, err := os.Lstat(region); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = stat.Ino
		}
	}
	if r.firmware == nil || inode == 0 {
		return r.readVersions(device, region, chips, engine)
	}
	r.firmware.mu.Lock()
	known, ok := r.firmware.of[region]
	r.firmware.mu.Unlock()
	if ok && known.inode == inode {
		return maps.Clone(known.versions)
	}
	versions := r.readVersions(device, region, chips, engine)
	// Sensors appear last when a card is found: a card without versions yet may get them.
	if len(versions) > 0 {
		r.firmware.mu.Lock()
		if r.firmware.of == nil {
			r.firmware.of = map[string]firmware{}
		}
		r.firmware.of[region] = firmware{inode, maps.Clone(versions)}
		r.firmware.mu.Unlock()
	}
	return versions
}

func (r *reader) readVersions(device, region string, chips []string, engine string) map[string]string {
	versions := map[string]string{}
	for _, chip := range chips {
		if below(chip, region) {
			r.controller(device, chip, filepath.Join(region, engine), versions)
		}
	}
	return versions
}

// controller reads the versions of a chip's controller: the chip is
// <controller>/<device>/hwmon/hwmonN, and the controller is below the engine.
func (r *reader) controller(device, chip, engine string, versions map[string]string) {
	controller := filepath.Dir(filepath.Dir(filepath.Dir(chip)))
	if !below(controller, engine) {
		return
	}
	rest, _, _ := strings.Cut(strings.TrimPrefix(controller, engine+"/"), "/")
	places := []string{controller}
	if outer := filepath.Join(engine, rest); outer != controller {
		places = append(places, outer)
	}
	for _, place := range places {
		for _, name := range firmwareFiles {
			if text := driver.Printable(r.optional(device, place, name)); text != "" && versions[name] == "" {
				versions[name] = text
			}
		}
	}
}
