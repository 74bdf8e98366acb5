package amdtree

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// devices holds every PCI device by its address.
const devices = "sys/bus/pci/devices/"

// root is the card's root port: a bus of its own, just below the card's.
func (g GPU) root() (bus string, port pci.Address) {
	port = pci.Address{Domain: g.Address.Domain, Bus: g.Address.Bus - 1, Device: 1, Function: 1}
	return fmt.Sprintf("sys/devices/pci%04x:%02x", port.Domain, port.Bus), port
}

// path is that of the card's directory.
func (g GPU) path() string {
	bus, port := g.root()
	return path.Join(bus, port.String(), g.Address.String())
}

// function makes the PCI side of a card: what is there whether or not it has a
// driver.
func (w *writer) function(m Machine, g GPU) {
	bus, port := g.root()
	bridge := path.Join(bus, port.String())
	if _, err := os.Stat(w.Path(bridge)); err != nil {
		w.pciFiles(bridge, 0x1022, 0x14ab, 0, 0x060400, g.numa(), port)
	}
	w.pciFiles(g.path(), 0x1002, g.Model.Device, g.Model.Revision, g.Model.Class, g.numa(), g.Address)
	w.File(g.path()+"/reset", "")
	if m.Sockets > 1 {
		w.File(g.path()+"/local_cpulist", fmt.Sprintf("%d-%d\n", g.Socket*64, g.Socket*64+63))
	}
}

func (w *writer) pciFiles(dir string, vendor, device uint16, revision uint8, class uint32, numa int, at pci.Address) {
	w.Dir(dir)
	for name, text := range map[string]string{
		"vendor": fmt.Sprintf("%#04x", vendor), "device": fmt.Sprintf("%#04x", device), "revision": fmt.Sprintf("0x%02x", revision),
		"class": fmt.Sprintf("0x%06x", class), "numa_node": fmt.Sprint(numa), "enable": "1", "power_state": "D0",
		"subsystem_vendor": fmt.Sprintf("%#04x", vendor), "subsystem_device": "0x0c34",
		"max_link_speed": "32.0 GT/s PCIe", "current_link_speed": "32.0 GT/s PCIe", "max_link_width": "16", "current_link_width": "16",
	} {
		w.File(path.Join(dir, name), text+"\n")
	}
	w.Relative(path.Join(dir, "subsystem"), "sys/bus/pci")
	w.Relative(devices+at.String(), dir)
}

func (g GPU) numa() int {
	if g.NoNUMA {
		return -1
	}
	return g.Socket
}

// bind makes what the driver adds to a card when it is loaded, but for its DRM
// devices.
func (w *writer) bind(m Machine, l *loaded) {
	dir := l.path()
	w.Relative(dir+"/driver", "sys/bus/pci/drivers/amdgpu")
	w.Relative("sys/bus/pci/drivers/amdgpu/"+l.Address.String(), dir)
	files := map[string]string{
		"mem_info_vram_total": fmt.Sprint(l.Model.VRAM), "mem_info_vram_used": "298844160", "mem_info_vram_vendor": "hynix",
		"mem_info_vis_vram_total": fmt.Sprint(l.Model.VRAM), "mem_info_vis_vram_used": "298844160",
		"mem_info_gtt_total": "540879159296", "mem_info_gtt_used": "14479360",
		"gpu_busy_percent": "0", "mem_busy_percent": "0", "pcie_replay_count": "0", "vbios_version": "113-D67301-063",
		"power_dpm_force_performance_level": "auto", "thermal_throttling_logging": "",
	}
	if !m.NoUniqueID {
		files["unique_id"] = fmt.Sprintf("%016x", l.UniqueID)
	}
	if l.ProductName != "" {
		files["product_name"], files["product_number"], files["serial_number"] = l.ProductName, "102-D67301-00", "692235000214"
	}
	if l.Compute != "" {
		files["current_compute_partition"], files["current_memory_partition"] = l.Compute, l.Memory
		files["available_compute_partition"] = strings.Join(l.Model.Compute, ", ")
		files["available_memory_partition"] = strings.Join(l.Model.Memory, ", ")
	}
	for name, version := range l.Model.Firmware {
		files["fw_version/"+name+"_fw_version"] = fmt.Sprintf("0x%08x", version)
	}
	if l.Hive != 0 {
		files["xgmi_device_id"], files["xgmi_error"] = fmt.Sprint(l.UniqueID), "0"
		files["xgmi_hive_info/xgmi_hive_id"] = fmt.Sprint(l.Hive)
	}
	for _, block := range []string{"umc", "gfx", "sdma", "mmhub", "pcie_bif", "hdp", "xgmi_wafl"} {
		files["ras/"+block+"_err_count"] = "ue: 0\nce: 0"
	}
	files["ras/features"] = "feature mask: 0x5fff"
	for name, text := range files {
		w.File(path.Join(dir, name), text+"\n")
	}
	w.File(dir+"/ras/gpu_vram_bad_pages", "")
	w.sensors(l)
}

// sensors makes hwmon, as the driver has it for cards of a data centre.
func (w *writer) sensors(l *loaded) {
	dir := fmt.Sprintf("%s/hwmon/hwmon%d", l.path(), l.hwmon)
	for name, text := range map[string]string{
		"name": "amdgpu", "temp1_input": "38000", "temp1_label": "edge", "temp2_input": "41000", "temp2_label": "junction",
		"temp3_input": "45000", "temp3_label": "mem", "power1_average": "41000000", "power1_cap": "300000000",
		"power1_label": "slowPPT", "freq1_input": "800000000", "freq1_label": "sclk", "freq2_input": "1600000000",
		"freq2_label": "mclk", "in0_input": "793", "in0_label": "vddgfx",
	} {
		w.File(path.Join(dir, name), text+"\n")
	}
	w.Relative(dir+"/device", l.path())
	w.Relative(fmt.Sprintf("sys/class/hwmon/hwmon%d", l.hwmon), dir)
}

// unbind removes what bind made.
func (w *writer) unbind(l *loaded) {
	w.Remove(fmt.Sprintf("sys/class/hwmon/hwmon%d", l.hwmon))
	w.Remove("sys/bus/pci/drivers/amdgpu/" + l.Address.String())
	entries, err := os.ReadDir(w.Path(l.path()))
	w.Do(err)
	for _, e := range entries {
		if !standing[e.Name()] {
			w.Remove(path.Join(l.path(), e.Name()))
		}
	}
}

// standing are the files of a card that need no driver.
var standing = map[string]bool{
	"vendor": true, "device": true, "revision": true, "class": true, "numa_node": true, "enable": true, "power_state": true,
	"subsystem_vendor": true, "subsystem_device": true, "max_link_speed": true, "current_link_speed": true,
	"max_link_width": true, "current_link_width": true, "subsystem": true, "reset": true, "local_cpulist": true,
}
