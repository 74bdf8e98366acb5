package alveo

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// errHalf means that a function is not in reset and does not report its shell.
var errHalf = errors.New("it has no feature ROM (rom*) though it is not in reset: its driver has not finished, or failed; see the kernel's log for xocl")

// user reads a user function. During a reset it has little more than the files user_pf and
// shutdown, which alone persist (xocl_persist_attrs in xocl_sysfs.c).
func (r *reader) user(f function, device pci.Device) (*User, error) {
	name, dir := f.at.String(), r.dir(f.at)
	u := &User{PCI: device, Dir: below(f.at), QDMA: len(f.subdevices("dma.qdma.u")) > 0}
	var err error
	if u.Shell, err = r.shell(f); err != nil {
		return nil, err
	}
	u.Shutdown = r.flag(name, dir, "shutdown")
	u.Ready = r.flag(name, dir, "ready")
	switch {
	case u.Shutdown:
		u.Offline = u.file("shutdown")
	case r.flag(name, dir, "dev_offline"):
		u.Offline = u.file("dev_offline")
	case !f.has("ready"), u.Shell.VBNV == "" && !u.Ready:
		// The driver makes its files last when a card comes back.
		u.Offline = u.file("ready")
	case u.Shell.VBNV == "":
		return nil, errHalf
	}
	for _, node := range names(filepath.Join(dir, "drm")) {
		if n, ok := strings.CutPrefix(node, "renderD"); ok && isDigits(n) {
			u.Render = append(u.Render, node)
		}
	}
	slices.Sort(u.Render)
	if len(u.Render) == 0 && u.Offline == "" {
		return nil, fmt.Errorf("it has no render node in %s/drm: its driver has not finished, or failed; see the kernel's log for xocl", u.Dir)
	}
	if f.has("xclbinuuid") {
		u.Xclbins, u.Reported = r.uuids(name, dir, "xclbinuuid")
	}
	if u.Offline == "" && !r.sibling(f.at) {
		u.Firewall = r.firewall(f)
	}
	u.controllers = controllers(f)
	return u, nil
}

// sibling reports whether the card's management function is here, which is read for the
// firewalls then.
func (r *reader) sibling(at pci.Address) bool {
	for function := range uint8(8) {
		other := at
		other.Function = function
		if _, err := r.text(r.dir(other), "mgmt_pf"); err == nil {
			return true
		}
	}
	return false
}

// management reads a management function. It does not read the file error, which a read
// clears.
func (r *reader) management(f function, device pci.Device) (*Management, error) {
	name, dir := f.at.String(), r.dir(f.at)
	m := &Management{PCI: device, Dir: below(f.at)}
	text, err := r.text(dir, "instance")
	if err != nil {
		return nil, err
	}
	instance, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: filepath.Join(dir, "instance"), Err: fmt.Errorf("%s is no number of a node", sysfs.Quote(text))}
	}
	m.Instance = uint32(instance)
	m.Ready = r.flag(name, dir, "ready")
	m.Offline = r.flag(name, dir, "dev_offline")
	if m.Shell, err = r.shell(f); err != nil {
		// The user function has it, too.
		r.problem(name, false, err)
	}
	// mfg is 1 by the PCI IDs of the golden image (XOCL_DSAFLAG_MFG in XRT's devices.h), recovery by the
	// capability that newer cards have (mgmtpf/mgmt-sysfs.c).
	for _, file := range []string{"mfg", "recovery"} {
		if r.flag(name, dir, file) {
			m.Golden = m.file(file) + " is 1"
		}
	}
	if m.Golden == "" && strings.Contains(m.Shell.VBNV, "_GOLDEN_") {
		m.Golden = "its shell is " + driver.Printable(m.Shell.VBNV)
	}
	if !m.Offline {
		m.Firewall = r.firewall(f)
		m.Banks = r.banks(f)
	}
	m.controllers = controllers(f)
	return m, nil
}

// banks reads how many errors banks of memory have had. The names of their devices end
// in a number that the kernel gives; banks are distinguished by their order.
func (r *reader) banks(f function) []Bank {
	var all []Bank
	for i, dir := range append(f.subdevices("mig"), f.subdevices("mem_hbm")...) {
		path := filepath.Join(r.dir(f.at), dir)
		if !r.flag(f.at.String(), path, "ecc_enabled") {
			continue
		}
		kind, _, _ := strings.Cut(dir, ".")
		all = append(all, Bank{
			Name:        fmt.Sprintf("%s%d", kind, i),
			Corrected:   r.number(f.at.String(), path, "ecc_ce_cnt"),
			Uncorrected: r.number(f.at.String(), path, "ecc_ue_cnt"),
		})
	}
	return all
}

// controllers returns the directories with the board's sensors.
func controllers(f function) []string {
	return append(f.subdevices("xmc"), f.subdevices("hwmon_sdm")...)
}
