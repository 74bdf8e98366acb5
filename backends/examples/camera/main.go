// Command camera lists the USB cameras of a node. This file is a whole backend; each of
// the others adds an ability to it. See README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// backend lists cameras, and does what the other files add as methods.
type backend struct {
	host     atomic.Value // an sdk.HostPaths
	interval atomic.Int64 // a time.Duration between two scans; 0 means 10 s
}

// configurable is for settings.go.
type configurable interface {
	decode(settings json.RawMessage) error
}

// diagnosed is for health.go.
type diagnosed interface {
	health(dir string) *sdk.Health
}

// Identity returns what manifest.yaml has.
func (b *backend) Identity() (name, version string) { return "camera", "1.0.0" }

func (b *backend) Configure(_ context.Context, settings json.RawMessage, host sdk.HostPaths) error {
	b.host.Store(host)
	if c, ok := any(b).(configurable); ok {
		return c.decode(settings)
	}
	return nil
}

func (b *backend) Watch(ctx context.Context, out *sdk.Reporter) error {
	return sdk.Poll(ctx, out, func() time.Duration { return time.Duration(b.interval.Load()) }, b.list)
}

func (b *backend) list(context.Context) (cameras []*sdk.Device, err error) {
	dirs, err := b.cameras()
	for _, id := range slices.Sorted(maps.Keys(dirs)) {
		d := &sdk.Device{Id: id, Class: "camera", Health: sdk.Healthy(), Edits: sdk.Nodes(nodes(dirs[id])...)}
		d.Attributes = map[string]*sdk.Attribute{"model": sdk.String(read(dirs[id], "product"))}
		if h, ok := any(b).(diagnosed); ok {
			d.Health = h.health(dirs[id])
		}
		if _, ok := any(b).(sdk.Preparer); ok {
			d.Hooks = []sdk.Hook{sdk.HookPrepare, sdk.HookRelease}
		}
		cameras = append(cameras, d)
	}
	return cameras, err
}

// cameras returns the directory in sysfs of each camera by its ID.
func (b *backend) cameras() (dirs map[string]string, err error) {
	bus := filepath.Join(b.host.Load().(sdk.HostPaths).Sysfs, "bus/usb/devices")
	entries, err := os.ReadDir(bus)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the kernel has no USB
	}
	var all []string
	for _, e := range entries {
		all = append(all, filepath.Join(bus, e.Name()))
	}
	same := map[string]int{}
	for _, dir := range all {
		same[serial(dir)]++
	}
	dirs = map[string]string{}
	for _, dir := range all {
		id := serial(dir)
		if id == "" || same[id] > 1 {
			id = port(dir)
		}
		if len(nodes(dir)) > 0 { // a camera
			dirs[id] = dir
		}
	}
	return dirs, err
}

func nodes(dir string) (paths []string) {
	found, _ := filepath.Glob(filepath.Join(dir, "*/video4linux/video*"))
	for _, n := range found {
		paths = append(paths, "/dev/"+filepath.Base(n))
	}
	return paths
}

var usable = regexp.MustCompile("^[A-Za-z0-9_.-]{1,40}$")

// serial returns vendor, product and serial number; empty without a number. Some products have the same in all.
func serial(dir string) string {
	if serial := read(dir, "serial"); usable.MatchString(serial) {
		return read(dir, "idVendor") + "-" + read(dir, "idProduct") + "-" + serial
	}
	return ""
}

// port returns the USB controller and the ports from there. The name of the directory begins with the number of
// the bus, which is another one when the kernel finds the controllers in another order.
func port(dir string) string {
	real, _ := filepath.EvalSymlinks(dir)
	controller, _, _ := strings.Cut(real, "/usb")
	for strings.HasSuffix(controller, ".auto") { // a platform device that the kernel counts, too: the one above it
		controller = filepath.Dir(controller)
	}
	_, ports, _ := strings.Cut(filepath.Base(dir), "-")
	return filepath.Base(controller) + "-" + ports
}

func read(dir, file string) string {
	data, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(data))
}

func main() { os.Exit(sdk.Serve(&backend{})) }
