package agent

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// Verifies that a card that is unplugged costs what it has and comes back with its ID,
// that a card that is reflashed has the resource of its new interface, and that a driver
// that is loaded anew and finds the cards in another order gives the same IDs with their
// new nodes; while the cards of other drivers never dip.
func TestFPGAChanges(t *testing.T) {
	m := threeCards()
	m.Cards = append(m.Cards, fpgatree.NewMany(2).Cards...)
	m.Alveos = fpgatree.NewAlveo(fpgatree.U250).Alveos
	n := newFPGANode(t, m)
	n.configureFPGA(modeRegion)
	n.startFPGAAgent()
	const shell = "amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0"
	d5005, n3000, arria := n.resource(0), n.resource(1), n.resource(2)
	all := map[string]int{d5005: 1, n3000: 3, arria: 1, shell: 1}
	n.wantCapacities(all)
	n.wantCounts(n3000, 3, 3)
	pid := n.backend("fpga").PID
	for _, resource := range []string{d5005, arria, shell} {
		n.mark(resource)
	}
	n.change(n.tree.Unplug(1))
	n.reflash(4, n.machine.Cards[0].Interface)
	n.wantCapacities(map[string]int{d5005: 2, n3000: 1, arria: 1, shell: 1})
	if d := n.device(n.port(1)); d.ID != "" {
		t.Errorf("the card that is not there is listed: %+v", d)
	}
	n.wantNoDip(d5005, 1)

	n.change(n.tree.ReloadDriver(2)) // only the older one
	n.wantCounts(n3000, 1, 0)
	n.wantFault(n.port(3), "driver-unbound")
	n.change(n.tree.Plug(1))
	n.change(n.tree.ReloadDriver(2, 4, 3, 1, 0)) // and the card has its old image
	n.wantCounts(n3000, 3, 3)
	n.wantCounts(d5005, 1, 1)
	n.wantNodes(map[string]string{
		n.port(4): "/dev/dfl-port.0", n.port(3): "/dev/dfl-port.1", n.port(1): "/dev/dfl-port.2", n.port(0): "/dev/dfl-port.3",
		n.port(2): "/dev/intel-fpga-port.0", "fpga-21770205K01Y-user": "/dev/dri/renderD128",
	})
	n.wantNoDip(arria, 1)
	n.wantNoDip(shell, 1)
	n.wantWritten()
	if now := n.backend("fpga").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// reflash has a card say another interface, as it does once the new image is in.
func (n *fpgaNode) reflash(card int, iface string) {
	n.Helper()
	dir, err := n.tree.Find(n.machine.Cards[card].Address, "fme")
	n.change(err)
	files, err := filepath.Glob(filepath.Join(n.tree.Root, dir, "dfl-fme-region.*/fpga_region/region*/compat_id"))
	n.change(err)
	for _, file := range files {
		name, err := filepath.Rel(n.tree.Root, file)
		n.change(err)
		n.change(n.tree.SetFile(name, iface+"\n"))
	}
}

// Verifies that an Alveo card that is reset by somebody keeps its place while it is away,
// and that one with a tripped firewall is reset by its driver, through the file that
// xocl has for that, when nobody holds it; neither touches the other card.
func TestFPGAAlveo(t *testing.T) {
	m := fpgatree.NewAlveo(fpgatree.U250)
	second := m.Alveos[0]
	second.Address.Bus, second.Serial = 0x66, "XFL1RTOJJAZX"
	m.Alveos = append(m.Alveos, second)
	n := newFPGADevice(t, m)
	n.resets = "auto"
	shutdowns := make(chan string, 10)
	n.kernel.OnWrite(func(file, text string) (unix.Errno, bool) {
		if filepath.Base(file) != "shutdown" {
			return 0, false
		}
		word := strings.TrimSpace(text)
		shutdowns <- filepath.Base(filepath.Dir(file)) + " " + word
		var opened error
		if word == "1" { // a reset opens the firewalls
			opened = n.tree.TripFirewall(0, 0, "", 0, 0)
		}
		if errors.Join(opened, n.tree.WriteShutdown(filepath.Join(n.tree.Root, file), text)) != nil {
			return unix.EIO, true
		}
		return 0, true
	})
	n.configureFPGA(modeAF)
	n.startFPGAAgent()
	const resource, first = "amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0", "fpga-21770205K01Y-user"
	n.wantCounts(resource, 2, 2)
	n.mark(resource)
	before := n.definitions()[first]
	n.change(n.tree.BeginReset(0))
	n.wantFault(first, "resetting")
	n.wantCounts(resource, 2, 1)
	if after := n.definitions()[first]; after != before || before == "" {
		t.Errorf("%s is %q in reset, was %q", first, after, before)
	}
	n.change(n.tree.EndReset(0))
	n.wantCounts(resource, 2, 2)
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", resource, 2)
	n.change(err)
	n.eventually("the holder has a name", func() bool { return len(n.device(first).Holders) == 1 })
	n.change(n.tree.TripFirewall(0, 2, "CL_APERTURE", 0x80000, 1700000000))
	n.wantProblem(first, "firewall-tripped", "waits until")
	if len(shutdowns) > 0 || len(allocation.Devices) != 2 {
		t.Errorf("a card that is held was reset: %s", <-shutdowns)
	}
	n.kubelet.Free("pod")
	n.wantCounts(resource, 2, 2)
	for _, want := range []string{"0000:65:00.1 1", "0000:65:00.1 0"} {
		if got := <-shutdowns; got != want {
			t.Errorf("%s was written to shutdown, want %s", got, want)
		}
	}
	n.wantNoDip(resource, 1)
	n.wantWritten()
}

// Verifies that what is measured and counted is among the metrics, by the card and by
// its regions, with who holds them, and that `accelmux top` shows it.
func TestFPGATelemetry(t *testing.T) {
	n := newFPGANode(t, everyFPGA())
	n.configureFPGA(modeRegion)
	n.startFPGAAgent()
	n.wantCounts(n.resource(0), 2, 2)
	n.eventually("metrics are served", func() bool { return n.agent.MetricsAddress() != "" })
	n.raise(0, "port0/errors", 2)
	for what, parts := range map[string][]string{
		"a temperature of Intel's": {"accelmux_device_temperature_celsius{", `device="fpga-0000-3b-00-0"`, " 47"},
		"a power of Intel's":       {"accelmux_device_power_watts{", `device="fpga-0000-3b-00-0"`, " 31"},
		"a temperature of AMD's":   {"accelmux_device_temperature_celsius{", `device="fpga-21770205K01Y`, " 41"},
		"one of another's":         {"accelmux_device_temperature_celsius{", `device="fpga-0000-5e-00-0`, " 41.5"},
		"a register":               {"accelmux_device_error_register_raised{", `device="` + n.port(0) + `"`, `register="errors"`, " 1"},
	} {
		n.eventually(what, func() bool {
			return slices.ContainsFunc(strings.Split(n.metrics(), "\n"), func(line string) bool {
				return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
			})
		})
	}
	if p := n.problems(); strings.Contains(p, "telemetry") {
		t.Errorf("what the backend sends breaks the rules:\n%s", p)
	}
	table, errs, code := accelmux(t, "top", "--run-dir", n.path("run"))
	if code != 0 || !strings.Contains(table, "fpga-21770205K01Y-user") || !strings.Contains(table, "50 °C        65 W") {
		t.Errorf("top: exit %d, printed\n%s%s", code, table, errs)
	}
	var telemetry status.Telemetry
	text, _, _ := accelmux(t, "top", "-o", "json", "--run-dir", n.path("run"))
	if err := json.Unmarshal([]byte(text), &telemetry); err != nil || len(telemetry.Devices) < 8 {
		t.Errorf("top -o json: %v, from\n%s", err, text)
	}
}
