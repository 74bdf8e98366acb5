// Command camera lists the USB cameras of a node. This file is a whole backend; each of
// the others adds an ability to it. See README.md.
package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

type backend struct{ sysfs atomic.Value }

var description = sdk.Description{
	Name: "camera", Vendor: "Any", Version: "1.0.0", Classes: []string{"camera"},
	Attributes: []*sdk.Declaration{sdk.Declare(sdk.KindString, "model", "the name of the USB product")},
	Needs:      &sdk.Needs{ReadPaths: []string{"/sys/bus/usb/**", "/sys/devices/**"}, DeviceNodes: []string{"/dev/video*"}},
}

// Variables that the other files set or extend.
var (
	decode   = func(settings json.RawMessage) error { return sdk.DecodeSettings(settings, &struct{}{}) }
	interval func() time.Duration              // between two scans; nil means 10 s
	extend   []func(d *sdk.Device, dir string) // the device has this directory in sysfs
)

func (b *backend) Describe() sdk.Description { return description }

func (b *backend) Configure(_ context.Context, settings json.RawMessage, host sdk.HostPaths) error {
	b.sysfs.Store(host.Sysfs)
	return decode(settings)
}

func (b *backend) Watch(ctx context.Context, out *sdk.Reporter) error {
	return sdk.Poll(ctx, out, interval, b.list)
}

func (b *backend) list(context.Context) (cameras []*sdk.Device, err error) {
	dirs, err := filepath.Glob(filepath.Join(b.sysfs.Load().(string), "bus/usb/devices/*"))
	same := map[string]int{}
	for _, dir := range dirs {
		same[serial(dir)]++
	}
	for _, dir := range dirs {
		nodes, _ := filepath.Glob(filepath.Join(dir, "*/video4linux/video*"))
		if len(nodes) == 0 {
			continue // no camera
		}
		d := &sdk.Device{Id: serial(dir), Class: "camera", Health: sdk.Healthy(), Edits: &sdk.Edits{}}
		if d.Id == "" || same[d.Id] > 1 {
			d.Id = port(dir)
		}
		d.Attributes = map[string]*sdk.Attribute{"model": sdk.String(read(dir, "product"))}
		for _, n := range nodes {
			d.Edits.DeviceNodes = append(d.Edits.DeviceNodes, &sdk.DeviceNode{Path: "/dev/" + filepath.Base(n)})
		}
		for _, f := range extend {
			f(d, dir)
		}
		cameras = append(cameras, d)
	}
	return cameras, err
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
