package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/nvml"
	"github.com/accelmux/accelmux/test/sysroot"
)

const (
	zetaGPUs, etaGPUs, thetaCards = 3, 3, 2

	// nvidiaBackend is the one that needs the double of NVML.
	nvidiaBackend = "zeta"

	zetaName  = "example.com/zeta"
	etaName   = "example.com/eta"
	thetaName = "example.com/theta"
)

// newVendors are the vendors' backends, each of which has no more kinds of faults than
// its double can have at any time, whatever process asks.
func newVendors() (zeta, eta, theta *backend) {
	zeta = newVendor(nvidiaBackend, &vendorOf{
		program: "accelmux-backend-nvidia", make: newNVIDIA,
		codes: map[string]recovery{"xid-79": byReboot, "recovery-reboot": byReboot, "row-remap-failed": byReplacement},
		config: `
        heartbeat: 500ms
        recovery: {delay: 0s, reset: never}
        env: {ACCELMUX_NVML_FILE: DIR/nvml.conf}
        allow: {declared: accept, mounts: [/driver/usr/lib64/*], process: {read: [DIR/**]}}
        settings: {library: LIBRARY, rescan: 1s, edits: {driverRoot: /driver, driverRootMount: DIR/driver}}
`,
	}, zetaGPUs, nvml.UUID, bySelf, byReboot, byReplacement)
	zeta.evidence = true
	gpus := etaMachine().GPUs
	eta = newVendor("eta", &vendorOf{
		program: "accelmux-backend-amd", make: newAMD,
		codes: map[string]recovery{"ecc-uncorrectable": byReset, "node-missing": bySelf},
		config: `
        heartbeat: 500ms
        recovery: {delay: 0s}
        allow: {declared: accept}
        settings: {poll: 100ms, rescan: 1s, health: {interval: 1s}, reset: {method: driver}}
`,
	}, etaGPUs, func(i int) string { return fmt.Sprintf("amdgpu-%016x", gpus[i].UniqueID) }, bySelf, byReset)
	theta = newVendor("theta", &vendorOf{
		program: "accelmux-backend-fpga", make: newFPGA,
		codes: map[string]recovery{"catfatal-errors": byReboot, "node-missing": bySelf, "write-error": bySelf},
		config: `
        heartbeat: 500ms
        recovery: {delay: 0s, reset: never}
        allow: {declared: accept}
        settings: {mode: region, health: {interval: 1s}}
`,
	}, thetaCards+1, thetaID, bySelf, byReboot)
	plain := theta.devices[thetaCards]
	plain.kinds, plain.fixed = []recovery{bySelf}, true
	return zeta, eta, theta
}

func newVendor(name string, of *vendorOf, count int, id func(int) string, kinds ...recovery) *backend {
	b := newBackend(name, true)
	for i := range count {
		d := newDevice(id(i))
		d.kinds = kinds
		b.devices = append(b.devices, d)
	}
	b.vendor = of
	return b
}

// nvidia are GPUs in the double of NVML, whose driver says what is to be done with one
// only if it is set: what is over else stands until a boot.
type nvidia struct {
	dir    string
	driver *nvml.Double
}

func newNVIDIA(dir, library string) (vendor, error) {
	driver, err := nvml.New(library, dir)
	if err != nil {
		return nil, err
	}
	v := &nvidia{dir, driver}
	_, err = nvml.NewHost(dir, zetaGPUs)
	for slot := range zetaGPUs {
		err = errors.Join(err, v.apply(slot, entry{unplugged: true}, entry{}))
	}
	return v, err
}

func (v *nvidia) apply(slot int, before, now entry) error {
	if now.unplugged { // first, as a driver lists as lost what is unplugged
		_ = os.Remove(v.device(slot) + "/vendor") // without it the rest is no device
		if err := os.RemoveAll(v.device(slot)); err != nil {
			return err
		}
	}
	err := v.driver.Update(func(s nvml.State) {
		if s.GPU(slot).Remove(); now.unplugged {
			return
		}
		gpu := s.AddGPU(slot)
		switch {
		case now.recovered: // the driver says that nothing is to be done
		case now.fault == byReboot:
			gpu.Set("recovery-action", 2)
		case now.fault == byReplacement:
			gpu.Set("remapped-rows.failure", 1)
			fallthrough
		default:
			gpu.Delete("recovery-action")
		}
	})
	if err == nil && now.fault == byReboot && before.fault != byReboot && !now.unplugged {
		_, err = v.driver.Event(fmt.Sprintf("gpu %d xid 79", slot))
	}
	if before.unplugged && !now.unplugged {
		err = errors.Join(err, v.plug(slot))
	}
	return errors.Join(err, setNode(v.dir, fmt.Sprintf("nvidia%d", slot), now.fault == bySelf))
}

// device is the directory of a GPU on the PCI bus.
func (v *nvidia) device(slot int) string {
	return filepath.Join(v.dir, "sys/bus/pci/devices", "0000:"+strings.TrimPrefix(nvml.BusID(slot), "00000000:"))
}

// plug makes that directory. The file without which there is no device comes last.
func (v *nvidia) plug(slot int) error {
	w := &sysroot.Writer{Root: v.device(slot)}
	w.Link("driver", "../../drivers/nvidia")
	w.File("class", "0x030200")
	w.File("device", "0x2330")
	w.File("vendor", "0x10de")
	return w.Err
}

// amd are GPUs in the tree of amdtree, each of which is reset alone, once debugfs has
// the driver's recovery.
type amd struct{ tree *amdtree.Tree }

// etaMachine is eta's: of the machine with MI210 some, without what would join them.
func etaMachine() amdtree.Machine {
	m := amdtree.NewMI210()
	m.GPUs, m.Cards, m.Sockets = m.GPUs[:etaGPUs], 0, 1
	for i := range m.GPUs {
		m.GPUs[i].Hive, m.GPUs[i].Socket = 0, 0
	}
	return m
}

func newAMD(dir, _ string) (vendor, error) {
	tree, err := amdtree.Write(dir, etaMachine())
	if err != nil {
		return nil, err
	}
	v := &amd{tree}
	for i := range etaGPUs {
		err = errors.Join(err, v.mendable(i, true))
	}
	return v, err
}

func (v *amd) apply(gpu int, before, now entry) error {
	render := fmt.Sprintf("dri/renderD%d", 128+gpu)
	switch {
	case now.unplugged && before.unplugged:
		return nil
	case now.unplugged:
		return errors.Join(setNode(v.tree.Root, render, false), v.tree.Unplug(gpu))
	case before.unplugged:
		if err := v.tree.Plug(gpu); err != nil {
			return err
		}
	}
	dir, err := filepath.Rel(v.tree.Root, v.tree.Device(gpu))
	if err != nil {
		return err
	}
	count := 0
	if now.fault == byReset {
		count = 1
	}
	return errors.Join(v.mendable(gpu, now.fault != byReset),
		v.tree.SetFile(dir+"/ras/umc_err_count", fmt.Sprintf("ue: %d\nce: 0\n", count)),
		setNode(v.tree.Root, render, now.fault == bySelf))
}

// mendable says whether debugfs has the driver's recovery of a GPU.
func (v *amd) mendable(gpu int, can bool) error {
	dir := filepath.Join(v.tree.Sysfs(), "kernel/debug/dri", v.tree.Machine().GPUs[gpu].Address.String())
	if !can {
		return os.RemoveAll(dir)
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "amdgpu_gpu_recover"), []byte("0\n"), 0o600))
}

// fpga are cards in the tree of fpgatree under Intel's older driver, which has no
// sensors that would have the numbers of the GPUs', and an FPGA with a manager.
type fpga struct{ tree *fpgatree.Tree }

func thetaMachine() fpgatree.Machine {
	m := fpgatree.NewPlainPCI()
	m.Plain[0].Sensor = false
	for i := range thetaCards {
		c := fpgatree.NewArria10().Cards[0]
		c.Address.Bus = 0xaf + 2*uint8(i)
		m.Cards = append(m.Cards, c)
	}
	return m
}

func thetaID(i int) string {
	if i < thetaCards {
		return fmt.Sprintf("fpga-0000-%02x-00-0-port-0", thetaMachine().Cards[i].Address.Bus)
	}
	return fmt.Sprintf("fpga-0000-%02x-00-0-region", thetaMachine().Plain[0].PCI.Bus)
}

func newFPGA(dir, _ string) (vendor, error) {
	tree, err := fpgatree.Write(dir, thetaMachine())
	return &fpga{tree}, err
}

func (v *fpga) apply(n int, before, now entry) error {
	if n == thetaCards {
		state := "operating\n"
		if now.fault == bySelf {
			state = "write error\n"
		}
		return v.tree.SetManager(0, "state", state)
	}
	port := fmt.Sprintf("intel-fpga-port.%d", n)
	switch {
	case now.unplugged && before.unplugged:
		return nil
	case now.unplugged:
		return errors.Join(setNode(v.tree.Root, port, false), v.tree.Unplug(n))
	case before.unplugged:
		if err := v.tree.Plug(n); err != nil {
			return err
		}
	}
	register := uint64(0)
	if now.fault == byReboot {
		register = 1
	}
	return errors.Join(v.tree.SetRegister(v.at(n), "fme/catfatal_errors", register), setNode(v.tree.Root, port, now.fault == bySelf))
}

func (v *fpga) at(card int) pci.Address { return v.tree.Machine().Cards[card].Address }
