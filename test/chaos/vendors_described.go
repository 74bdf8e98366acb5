package main

import (
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/test/devicetree"
)

const (
	kappaAdapters = 2
	kappaName     = "example.com/kappa"
)

// newKappa is the backend for described devices: USB adapters, which are found in a part of sysfs of
// which the kernel sends no events, and so in a second.
func newKappa() *backend {
	kappa := newVendor("kappa", &vendorOf{
		program: "accelmux-backend-device",
		make: func(dir, _ string) (vendor, error) {
			v := &adapters{tree: devicetree.Tree{Root: dir}, number: make([]int, kappaAdapters)}
			for i := range kappaAdapters {
				if err := v.plug(i); err != nil {
					return nil, err
				}
			}
			return v, nil
		},
		codes: map[string]recovery{"dead": byReboot, "device-incomplete": bySelf},
		config: `
        heartbeat: 500ms
        recovery: {delay: 0s, reset: never}
        allow: {declared: accept, devices: ["/dev/ttyUSB[0-9]*"]}
        settings:
          interval: 1s
          kinds:
          - name: adapter
            match: {paths: ["/sys/devices/usb/*/*/ttyUSB[0-9]*"]}
            edits: {nodes: [{path: "/dev/{name}"}]}
            health: [{fault: dead, present: dead, recovery: reboot}]
`,
	}, kappaAdapters, func(i int) string { return fmt.Sprintf("adapter-0403-6001-S%d-if0", i) }, bySelf, byReboot)
	kappa.unbinds = true
	return kappa
}

// adapters are USB adapters, each of which gets another port when it is plugged in again, and another
// number also when its driver is bound again.
type adapters struct {
	tree devicetree.Tree
	// number is that of an adapter's node, and of its port; last the one that was given last.
	number []int
	last   int
}

func (v *adapters) apply(i int, before, now entry) error {
	if before.unplugged || before.fault == bySelf {
		if now.unplugged == before.unplugged && now.fault == before.fault {
			return nil
		}
		if err := v.remove(i); err != nil {
			return err
		}
		if now.unplugged {
			return nil
		}
		if err := v.plug(i); err != nil {
			return err
		}
	}
	switch {
	case now.unplugged:
		return v.remove(i)
	case now.fault == bySelf:
		return v.write(i, "- PORT:1.0/TTY\n- dev/TTY")
	case now.fault == byReboot:
		return v.write(i, "PORT:1.0/TTY/dead: 1")
	}
	return v.write(i, "- PORT:1.0/TTY/dead")
}

// plug plugs an adapter in, or binds it, under a number that none had.
func (v *adapters) plug(i int) error {
	v.last++
	v.number[i] = v.last
	return v.write(i, `
		PORT/idVendor: 0403
		PORT/idProduct: 6001
		PORT/serial: S`+fmt.Sprint(i)+`
		PORT:1.0/TTY/uevent: MAJOR=188\nMINOR=NUMBER\nDEVNAME=TTY
		dev/TTY: c 188:NUMBER`)
}

func (v *adapters) remove(i int) error {
	return v.write(i, "- sys/devices/usb/1-NUMBER\n- dev/TTY")
}

func (v *adapters) write(i int, lines string) error {
	number := fmt.Sprint(v.number[i])
	lines = strings.ReplaceAll(lines, "PORT:1.0", "PORT/1-NUMBER:1.0")
	return v.tree.Write(strings.NewReplacer("PORT", "sys/devices/usb/1-"+number, "TTY", "ttyUSB"+number, "NUMBER", number).Replace(lines))
}
