package fpgatree

import (
	"fmt"
	"path"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Major numbers of the device nodes of XRT's drivers; that of DRM is fixed.
const (
	xclmgmtMajor, drmMajor = 240, 226
	// firstRender is the first minor number of render nodes.
	firstRender = 128
)

// noLevel is how xclmgmt prints level -1: no firewall is tripped.
const noLevel = "18446744073709551615"

// files writes files below a directory, which go with the driver.
func (w *writer) attributes(l *loaded, dir string, files map[string]string) {
	for name, text := range files {
		w.File(path.Join(dir, name), text)
		l.dirs = append(l.dirs, path.Join(dir, name))
	}
}

// loadManagement gives the management function its driver.
func (t *Tree) loadManagement(w *writer, l *loaded, c Alveo, at pci.Address) {
	dir := directory(at)
	w.Relative(dir+"/driver", "sys/bus/pci/drivers/xclmgmt")
	l.dirs = append(l.dirs, dir+"/driver")
	w.attributes(l, dir, map[string]string{
		"mgmt_pf": "", "instance": fmt.Sprintln(instance(at)), "board_name": c.Model.Board + "\n", "ready": "0\n", "dev_offline": "0\n",
		"recovery": "0\n", "flash_type": "qspi_ps\n", "slot": fmt.Sprintln(at.Device), "error": "\n", "mfg": "0\n",
		"interface_uuids": text(c.Model.Interfaces), "logic_uuids": text(c.Model.Logic),
	})
	t.rom(w, l, c, dir, "m")
	if !c.Model.Bare {
		t.subdevice(w, l, dir, "firewall", "m", map[string]string{
			"status": "0", "level": noLevel, "detected_status": "0", "detected_level": "0", "detected_time": "0", "detected_level_name": "",
		})
		t.controller(w, l, c, dir, "m")
	}
	for range c.Model.Banks {
		t.subdevice(w, l, dir, "mig", "m", map[string]string{
			"ecc_enabled": "1", "ecc_status": "0", "ecc_ce_cnt": "0", "ecc_ue_cnt": "0",
		})
	}
	w.Do(sysroot.Replace(t.Root, dir+"/ready", "1\n"))
	node := fmt.Sprintf("dev/xclmgmt%d", instance(at))
	w.Node(node, xclmgmtMajor, instance(at))
	l.nodes = append(l.nodes, node)
}

// loadUser gives the user function its driver: first what persists over a reset.
func (t *Tree) loadUser(w *writer, l *loaded, c Alveo, at pci.Address) {
	dir := directory(at)
	w.Relative(dir+"/driver", "sys/bus/pci/drivers/xocl")
	l.dirs = append(l.dirs, dir+"/driver")
	w.attributes(l, dir, map[string]string{"user_pf": "", "shutdown": "0\n", "dev_hotplug_done": "0\n"})
	n := t.take(l, "drm")
	for name, minor := range map[string]int{fmt.Sprintf("card%d", n): n, fmt.Sprintf("renderD%d", firstRender+n): firstRender + n} {
		w.File(path.Join(dir, "drm", name, "dev"), fmt.Sprintf("%d:%d\n", drmMajor, minor))
		w.Relative("sys/class/drm/"+name, path.Join(dir, "drm", name))
		w.Node("dev/dri/"+name, drmMajor, minor)
		l.links = append(l.links, "sys/class/drm/"+name)
		l.nodes = append(l.nodes, "dev/dri/"+name)
	}
	l.dirs = append(l.dirs, dir+"/drm")
	t.userSide(w, l, c, dir)
}

// userSide makes what of the user function goes away while the card is reset.
func (t *Tree) userSide(w *writer, l *loaded, c Alveo, dir string) {
	t.rom(w, l, c, dir, "u")
	if !c.Model.Bare {
		t.subdevice(w, l, dir, "firewall", "u", map[string]string{
			"status": "0", "level": noLevel, "detected_status": "0", "detected_level": "0", "detected_time": "0", "detected_level_name": "",
		})
		t.controller(w, l, c, dir, "u")
	}
	xclbin := ""
	if c.Xclbin != "" {
		xclbin = c.Xclbin + "\n"
	}
	w.attributes(l, dir, map[string]string{
		"board_name": c.Model.Board + "\n", "xclbinuuid": xclbin, "ready": "0x1\n", "dev_offline": "0\n", "userbar": "0\n",
		"link_speed": "3\n", "link_width": "16\n", "interface_uuids": text(c.Model.Interfaces), "logic_uuids": text(c.Model.Logic),
	})
}

// text is a file of UUIDs, one on each line.
func text(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return lines(all) + "\n"
}

// rom makes the shell's feature ROM.
func (t *Tree) rom(w *writer, l *loaded, c Alveo, dir, side string) {
	uuid := ""
	if len(c.Model.Logic) > 0 {
		uuid = c.Model.Logic[0]
	}
	t.subdevice(w, l, dir, "rom", side, map[string]string{
		"VBNV": c.Model.VBNV, "timestamp": fmt.Sprint(c.Model.Timestamp), "FPGA": "xcu", "uuid": uuid, "ddr_bank_size": "16",
		"ddr_bank_count_max": fmt.Sprint(c.Model.Banks),
	})
}

// controller makes the board's controller with its sensors.
func (t *Tree) controller(w *writer, l *loaded, c Alveo, dir, side string) {
	files := map[string]string{"serial_num": c.Serial, "version": "2021090101", "status": "0x1", "bmc_ver": "4.6.11"}
	for name, value := range c.Model.Sensors {
		files["xmc_"+name] = fmt.Sprint(value)
	}
	t.subdevice(w, l, dir, "xmc", side, files)
}
