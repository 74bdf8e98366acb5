package main

import (
	"slices"
	"strings"
)

// recovery is how a fault is mended, in the words of the scenario file.
type recovery string

const (
	bySelf        recovery = "self"
	byReset       recovery = "reset"
	byReboot      recovery = "reboot"
	byReplacement recovery = "replacement"
)

var recoveries = []recovery{bySelf, byReset, byReboot, byReplacement}

// entry is what a scenario file says of a device.
type entry struct {
	fault     recovery // "" for none
	recovered bool
	unplugged bool
}

// device is what is true of one device.
type device struct {
	id    string
	group string // of those that are reset together
	entry entry
	// faults are those that stand: reported, and not mended since. Those that entry
	// says now are in it when the node has come to rest with the backend running.
	faults map[recovery]bool
	// hazy says that faults may have been forgotten with good reason, or not.
	hazy bool
	// kinds are the faults that it can have; fixed says that it cannot be unplugged.
	kinds []recovery
	fixed bool
}

// backend is one backend of the node.
type backend struct {
	name    string
	devices []*device
	// holdover says whether its devices stay for as long as a test lasts while it is
	// down; if not, they are gone in a moment.
	holdover bool
	// scripted says that it watches a file which says what happens to its devices.
	scripted bool
	// vendor is what it is if it is a vendor's, else nil.
	vendor *vendorOf
	// unbinds says that a device with the fault bySelf has lost its driver.
	unbinds bool
	// evidence says that it can report that what was wrong is over.
	evidence bool
	// crash and missing keep it down; while it is wild, it does what it likes.
	crash, missing, wild bool
	// wrong says that its program is another one than the configuration pins.
	wrong bool
	// litter says that its last inventory may have had devices that are none.
	litter bool
	// action is an action of its scenario that happens once, as YAML; "" for none.
	action string
}

// changes reports whether anything can be done to its devices.
func (b *backend) changes() bool { return b.scripted || b.vendor != nil }

// mayMiss reports whether a process of the backend finds a device only if it found it before.
func (b *backend) mayMiss(d *device) bool { return b.unbinds && d.entry.fault == bySelf }

func (b *backend) down() bool { return b.crash || b.missing || b.wild }

// model is what is true of the node, apart from what kubelet's books say.
type model struct {
	alpha, beta, gamma, delta, epsilon *backend
	zeta, eta, theta, iota, kappa      *backend
	// vendors are those of zeta, eta, theta and kappa that the node has.
	vendors []*backend

	// The configuration.
	units    int    // devices of alpha
	replicas int    // of them
	name     string // of alpha's resource
	broken   bool   // the file on disk is no good; the rest is what was good last
	extra    bool   // backend delta is configured, where the profile is not the lean one
	pinned   bool   // its program is pinned, by the checksum
	checksum string // of the mock backend, as the configuration has it
	dra      bool   // iota's devices are for claims; in the lean profile if not so

	// The API server.
	away     bool // it does not answer
	labelled bool // the Node has the label of the lean profile
	lean     bool // that profile is in force

	kubelet  bool // it runs
	diskFull bool
	unsaved  bool   // the disk was full: the agent may have yet to write its state
	readOnly bool   // the CDI directory
	foreign  string // the alpha device that a foreign CDI spec defines too, or ""
}

const (
	maxUnits   = 5
	bigName    = "example.com/big"
	gpuName    = "example.com/gpu"
	partName   = "example.com/part"
	steadyName = "example.com/fpga"
	deltaName  = "example.com/npu"
	draName    = "example.com/claimed"
	wildName   = "example.com/wild"
)

func newModel() *model {
	m := &model{units: 3, replicas: 1, name: gpuName, kubelet: true, extra: true, dra: true}
	m.alpha = newBackend("alpha", true, "a-0", "a-1", "a-2", "a-3", "a-4")
	m.beta = newBackend("beta", false, "b-0-p0", "b-0-p1", "b-1-p0", "b-1-p1")
	for _, d := range m.beta.devices {
		d.group, _, _ = strings.Cut(d.id, "-p")
	}
	m.gamma = newBackend("gamma", true, "c-0", "c-1")
	m.delta = newBackend("delta", true, "d-0", "d-1")
	m.epsilon = newBackend("epsilon", true, "hostile-0", "hostile-1")
	m.iota = newBackend("iota", true, "i-0", "i-1", "i-2", "i-3")
	for _, b := range []*backend{m.alpha, m.beta, m.delta, m.iota} {
		b.scripted, b.evidence = true, true
	}
	m.zeta, m.eta, m.theta = newVendors()
	m.kappa = newKappa()
	m.vendors = []*backend{m.zeta, m.eta, m.theta, m.kappa}
	return m
}

func newBackend(name string, holdover bool, ids ...string) *backend {
	b := &backend{name: name, holdover: holdover}
	for _, id := range ids {
		b.devices = append(b.devices, newDevice(id))
	}
	return b
}

func newDevice(id string) *device {
	return &device{id: id, group: id, faults: map[recovery]bool{}, kinds: recoveries}
}

// all are the backends, also one that is not configured now.
func (m *model) all() []*backend {
	return append([]*backend{m.alpha, m.beta, m.gamma, m.delta, m.epsilon, m.iota}, m.vendors...)
}

// configured are the backends that the configuration has.
func (m *model) configured() []*backend {
	all := append([]*backend{m.alpha, m.beta, m.gamma, m.epsilon, m.iota}, m.vendors...)
	if m.hasDelta() {
		all = append(all, m.delta)
	}
	return all
}

func (m *model) hasDelta() bool { return m.extra && !m.lean }

// claimed reports whether iota's devices are for claims now, and not for the device plugin API.
func (m *model) claimed() bool { return m.dra != m.lean }

// resourceOf is the resource of a backend's devices.
func (m *model) resourceOf(b *backend) (name string, replicas int) {
	switch b {
	case m.alpha:
		return m.name, m.replicas
	case m.beta:
		return partName, 1
	case m.gamma:
		return steadyName, 1
	case m.epsilon:
		return wildName, 1
	case m.zeta:
		return zetaName, 1
	case m.eta:
		return etaName, 1
	case m.theta:
		return thetaName, 1
	case m.iota:
		return draName, 1
	case m.kappa:
		return kappaName, 1
	}
	return deltaName, 1
}

// present reports whether the backend lists the device when it runs.
func (m *model) present(b *backend, d *device) bool {
	return !d.entry.unplugged && (b != m.alpha || slices.Index(b.devices, d) < m.units) && (b != m.delta || m.hasDelta())
}

// hold is a unit of kubelet's books: a container has it.
type hold struct {
	Pod, Resource, Unit string
}

// deviceOf is the device behind a unit: replicas have the suffix ::N.
func deviceOf(unit string) (id string, replica bool) {
	id, _, replica = strings.Cut(unit, "::")
	return id, replica
}

// holders are the holds of a device.
func holders(holds []hold, id string) []hold {
	var of []hold
	for _, h := range holds {
		if have, _ := deviceOf(h.Unit); have == id {
			of = append(of, h)
		}
	}
	return of
}

// faulty reports whether a fault of the device stands, as far as is sure, and whether
// that is certain. A fault that a reset mends stands as long as the group is in use.
func (m *model) faulty(b *backend, d *device, holds []hold) (stands, certain bool) {
	if d.entry.recovered {
		return false, true
	}
	if d.entry.fault != "" {
		return true, true
	}
	if d.hazy {
		return false, false
	}
	for kind := range d.faults {
		switch {
		case kind == byReboot || kind == byReplacement:
			return true, true
		case kind == byReset && m.groupHeld(b, d.group, holds):
			return true, true
		}
	}
	return false, true
}

// mended reports whether it is certain that no fault of the device is left once the
// node is at rest, whatever kubelet may be told of it. Without kubelet nobody knows when
// containers end, and so when a reset may come.
func (m *model) mended(b *backend, d *device, holds []hold) bool {
	stands, certain := m.faulty(b, d, holds)
	return certain && !stands && (m.kubelet || d.entry.recovered)
}

// standing are the codes of the faults that the agent must know of.
func (m *model) standing(b *backend, d *device, holds []hold) []string {
	codes := []string{}
	if d.entry.fault != "" && b.named(d.entry.fault) {
		codes = append(codes, code(d.entry.fault))
	}
	for kind := range d.faults {
		lasts := kind == byReboot || kind == byReplacement || kind == byReset && m.groupHeld(b, d.group, holds) && d.entry.fault == ""
		if lasts && !d.entry.recovered && !d.hazy {
			codes = append(codes, code(kind))
		}
	}
	slices.Sort(codes)
	return codes
}

// reported begins the codes of faults that the scenarios have.
const reported = "c-"

func code(kind recovery) string { return reported + string(kind) }

func (m *model) groupHeld(b *backend, group string, holds []hold) bool {
	return slices.ContainsFunc(b.devices, func(d *device) bool { return d.group == group && len(holders(holds, d.id)) > 0 })
}

// rest takes note that the node has come to rest as expected: what was reported
// stands, and what was mended is over.
func (m *model) rest(holds []hold) {
	for _, b := range m.configured() {
		if b.down() {
			continue
		}
		for _, d := range b.devices {
			if !m.present(b, d) {
				continue
			}
			switch {
			case d.entry.fault != "":
				d.faults[d.entry.fault] = true
			case d.entry.recovered:
				clear(d.faults)
				d.hazy = false
			case m.kubelet:
				delete(d.faults, bySelf)
				if !m.groupHeld(b, d.group, holds) {
					delete(d.faults, byReset)
				}
			}
		}
	}
}

// forget is for state that may have been lost with the agent: faults that are not
// reported anew may be remembered or not. Of a device that is away nothing is.
func (m *model) forget() {
	for _, b := range m.all() {
		for _, d := range b.devices {
			if m.present(b, d) && !b.down() {
				delete(d.faults, d.entry.fault)
			}
			d.hazy = d.hazy || len(d.faults) > 0
		}
	}
}
