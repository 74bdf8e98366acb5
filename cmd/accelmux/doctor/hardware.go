package doctor

import "fmt"

// hardware is the first step: what package pcibus finds.
func hardware(w *walk) Finding {
	onBus := map[string]bool{}
	for _, d := range w.devices {
		if d.onBus != nil {
			onBus[d.onBus.Address] = true
		}
	}
	switch {
	case w.busErr != nil:
		return Finding{Stops, "the PCI bus cannot be read: " + w.busErr.Error(), "run doctor as root on the node, or name the node's sysfs with --sysfs"}
	case len(onBus) == 0:
		return Finding{State: OK, Why: "no accelerators on the PCI bus"}
	}
	return Finding{State: OK, Why: fmt.Sprintf("accelerators on the PCI bus: %d", len(onBus))}
}

// driver stops accelerators without a kernel driver, unless a backend lists them as healthy.
func driver(w *walk) Finding {
	bound := map[string]bool{}
	for _, d := range w.devices {
		switch {
		case d.onBus == nil:
		case d.onBus.Driver != "":
			bound[d.onBus.Driver] = true
		case d.listed == nil || !d.listed.Healthy:
			w.stop(d, "no kernel driver is bound to "+d.onBus.Address,
				"install and load the vendor's driver; `dmesg` and `lspci -k -s "+d.onBus.Address+"` show why it is not bound")
		}
	}
	return Finding{State: OK, Why: listed("drivers", bound)}
}
