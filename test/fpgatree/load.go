package fpgatree

import (
	"fmt"
	"os"
	"path"

	"github.com/accelmux/accelmux/backends/pci"
)

// Major numbers of the device nodes, those of the captures.
const (
	fmeMajor, portMajor = 245, 244
)

// load gives a card the driver.
func (t *Tree) load(l *loaded, i int) error {
	l.Card = t.machine.Cards[i]
	w := t.writer()
	driver := "dfl-pci"
	if l.Model.OPAE {
		driver = "intel-fpga-pci"
	}
	for n, f := range l.Model.Functions {
		at := l.at(f)
		w.Relative(directory(at)+"/driver", "sys/bus/pci/drivers/"+driver)
		l.dirs = append(l.dirs, directory(at)+"/driver")
		region := t.region(w, l, at, n)
		if n > 0 {
			continue
		}
		fme := t.engine(w, l, region)
		for port := l.VFs; port < l.Ports; port++ {
			t.port(w, l, region, port)
		}
		t.sensors(w, l, fme)
	}
	for v := range l.VFs {
		at := l.vf(v)
		w.Relative(directory(at)+"/driver", "sys/bus/pci/drivers/"+driver)
		l.dirs = append(l.dirs, directory(at)+"/driver")
		t.port(w, l, t.region(w, l, at, 0), v)
	}
	return w.Err
}

// region makes the region, or the older driver's device, of the n-th function.
func (t *Tree) region(w *writer, l *loaded, at pci.Address, n int) string {
	class, name := "fpga_region", "region"
	if l.Model.OPAE {
		class, name = "fpga", "intel-fpga-dev."
	}
	name = fmt.Sprintf("%s%d", name, t.take(l, name))
	dir := path.Join(directory(at), class, name)
	w.File(dir+"/uevent", "")
	w.Relative(dir+"/device", directory(at))
	w.Relative(dir+"/subsystem", "sys/class/"+class)
	switch {
	case l.Model.NoAFU && n == 0: // what the capture of a file has that cannot be read
		w.File(dir+"/compat_id", string(make([]byte, 1024)))
	case l.Model.NoAFU && n == 1:
		w.File(dir+"/compat_id", "")
	case !l.Model.OPAE:
		w.Link(dir+"/"+name, name) // as captured
	}
	l.dirs = append(l.dirs, path.Dir(dir))
	t.classLink(w, l, class, dir)
	return dir
}

func (t *Tree) classLink(w *writer, l *loaded, class, dir string) {
	link := path.Join("sys/class", class, path.Base(dir))
	w.Relative(link, dir)
	l.links = append(l.links, link)
}

// node makes the device node of a directory, and the files that say so.
func (t *Tree) node(w *writer, l *loaded, dir string, major, minor int) {
	name := path.Base(dir)
	w.File(dir+"/dev", l.text(fmt.Sprintf("%d:%d", major, minor)))
	w.File(dir+"/uevent", l.text(fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=%s", major, minor, name)))
	if t.openNodes {
		w.Do(os.WriteFile(w.Path("dev/"+name), nil, 0o660))
	} else {
		w.Node("dev/"+name, major, minor)
	}
	l.nodes = append(l.nodes, "dev/"+name)
}

// files writes files of a directory.
func (w *writer) files(c Card, dir string, files map[string]string) {
	for name, text := range files {
		w.File(path.Join(dir, name), c.text(text))
	}
}

// engine makes the FPGA management engine.
func (t *Tree) engine(w *writer, l *loaded, region string) string {
	name := "dfl-fme"
	if l.Model.OPAE {
		name = "intel-fpga-fme"
	}
	n := t.take(l, name)
	dir := fmt.Sprintf("%s/%s.%d", region, name, n)
	w.files(l.Card, dir, map[string]string{
		"bitstream_id": fmt.Sprintf("0x%x", l.Model.Bitstream), "bitstream_metadata": fmt.Sprintf("0x%x", l.Model.Metadata),
		"ports_num": fmt.Sprint(l.Ports), "socket_id": "0", "cache_size": "0", "errors/catfatal_errors": "0x0",
		"errors/nonfatal_errors": "0x0", "errors/pcie0_errors": "0x0", "errors/pcie1_errors": "0x0",
	})
	// No link of the engine leads out of it, as captured.
	w.Link(dir+"/driver", ".")
	w.Link(dir+"/subsystem", ".")
	manager := t.take(l, "fpga")
	if l.Model.OPAE {
		w.files(l.Card, dir, map[string]string{
			"errors/fme-errors/errors": "0x0", "errors/fme-errors/first_error": "0x0", "errors/fme-errors/next_error": "0x0",
			"errors/fme-errors/clear":  "",
			"thermal_mgmt/temperature": "38",
		})
		w.File(dir+"/pr/interface_id", l.id(l.Interface))
		place := fmt.Sprintf("%s/fpga_manager/fpga%d", dir, manager)
		w.files(l.Card, place, map[string]string{"name": "Intel FPGA Manager", "state": "unknown"})
		t.classLink(w, l, "fpga_manager", place)
	} else {
		w.files(l.Card, dir, map[string]string{"errors/fme_errors": "0x0", "errors/first_error": "0x0", "errors/next_error": "0x0"})
		place := fmt.Sprintf("%s/dfl-fme-mgr.%d/fpga_manager/fpga%d", dir, n, manager)
		w.files(l.Card, place, map[string]string{"name": "DFL FME FPGA Manager", "state": "unknown", "status": ""})
		t.classLink(w, l, "fpga_manager", place)
		for range l.Ports {
			pr := t.take(l, "region")
			nested := fmt.Sprintf("%s/dfl-fme-region.%d/fpga_region/region%d", dir, t.take(l, "dfl-fme-region"), pr)
			w.File(nested+"/uevent", "")
			if l.Interface != "" {
				w.File(nested+"/compat_id", l.id(l.Interface))
			}
			t.classLink(w, l, "fpga_region", nested)
		}
	}
	t.node(w, l, dir, fmeMajor, n)
	return dir
}

// port makes a port with its accelerator function.
func (t *Tree) port(w *writer, l *loaded, region string, id int) {
	name := "dfl-port"
	if l.Model.OPAE {
		name = "intel-fpga-port"
	}
	n := t.take(l, name)
	dir := fmt.Sprintf("%s/%s.%d", region, name, n)
	w.files(l.Card, dir, map[string]string{
		"id": fmt.Sprint(id), "ltr": "1", "power_state": "0x0", "errors/errors": "0x0", "errors/first_error": "0x0",
		"errors/first_malformed_req": "0x00000000000000000000000000000000",
	})
	if l.Model.OPAE {
		w.File(dir+"/errors/clear", "")
	}
	if !l.Model.NoAFU {
		w.File(dir+"/afu_id", l.id(l.AFU))
	}
	w.Link(dir+"/driver", ".")
	t.node(w, l, dir, portMajor, n)
}

// sensors makes those of the engine and of the board's controller.
func (t *Tree) sensors(w *writer, l *loaded, fme string) {
	chip := func(dir, name string, files map[string]string) {
		dir = fmt.Sprintf("%s/hwmon/hwmon%d", dir, t.take(l, "hwmon"))
		w.File(dir+"/name", name+"\n")
		w.Link(dir+"/device", "../../../"+path.Base(path.Dir(path.Dir(dir))))
		for file, text := range files {
			w.File(dir+"/"+file, text)
		}
		t.classLink(w, l, "hwmon", dir)
	}
	if l.Model.Alarms {
		chip(fme, "dfl_fme_thermal", map[string]string{
			"temp1_input": "47000\n", "temp1_max": "90000\n", "temp1_crit": "93000\n", "temp1_emergency": "95000\n",
			"temp1_max_alarm": "0\n", "temp1_crit_alarm": "0\n", "temp1_max_policy": "0\n",
		})
		chip(fme, "dfl_fme_power", map[string]string{
			"power1_input": "31000000\n", "power1_max": "60000000\n", "power1_crit": "70000000\n", "power1_max_alarm": "0\n",
			"power1_crit_alarm": "0\n", "power1_xeon_limit": "0\n",
		})
	}
	if l.Model.Controller == "" {
		return
	}
	controller := fme + "/dfl_dev.3"
	if l.Model.SPI {
		w.File(controller+"/nios_fw_version", "3.0.1\n")
		controller += "/subdev_spi_altera.3.auto/spi_master/spi4/spi4.0"
	}
	w.File(controller+"/bmc_version", "0x44020006\n")
	w.File(controller+"/bmcfw_version", "0x44020014\n")
	chip(fmt.Sprintf("%s/%s-hwmon.6.auto", controller, l.Model.Controller), l.Model.Controller+"_hwmon", map[string]string{
		"power1_input": "64709000\n", "power1_label": "Board Power\n", "temp1_input": "35000\n", "temp1_label": "Board Temperature\n",
		"temp2_input": "50000\n", "temp2_label": "FPGA Die Temperature\n", "temp2_max": "90000\n", "temp2_crit": "100000\n",
		"temp3_input": "", "temp3_label": "QSFP0 Temperature\n", "in0_input": "880\n", "in0_label": "FPGA Core Voltage\n",
	})
}
