package intel

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// firmwareFiles are those in which the board's controller has its versions.
var firmwareFiles = []string{"bmc_version", "bmcfw_version", "nios_fw_version"}

// firmwares are the versions that were read, by region. The controller is behind a slow
// bus, and gets other firmware only with a restart of the card, over which the region's
// directory is another one. The zero value has none, and can be used concurrently.
type firmwares struct {
	mu sync.Mutex
	of map[string]firmware
}

type firmware struct {
	// inode is that of the region's directory.
	inode    uint64
	versions map[string]string
}

// forget drops what is not of the cards.
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

// versions are those of the controllers of a card, as read before if they were.
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
	// Sensors come last when a card is found: what has none yet may get them.
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

// controller reads the versions of the controller that a chip is of: the chip is
// <controller>/<device>/hwmon/hwmonN, and the controller is somewhere in the engine.
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
			if text := printable(r.optional(device, place, name)); text != "" && versions[name] == "" {
				versions[name] = text
			}
		}
	}
}
