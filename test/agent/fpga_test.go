package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/patience"
)

// everyFPGA is a machine with every kind of card: Intel's under both drivers, virtual
// functions, OFS, AMD's, and FPGAs of any vendor under Linux's FPGA subsystem.
func everyFPGA() fpgatree.Machine {
	m := fpgatree.NewPlainMixed()
	m.Alveos = fpgatree.NewVendors().Alveos
	return m
}

// byRegion are the resources of that machine with all ports by interface; others are
// those that no mode changes.
func byRegion(m fpgatree.Machine) (ports, others map[string]int) {
	d5005, n3000, ofs, arria := m.Cards[0], m.Cards[1], m.Cards[2], m.Cards[3]
	ports = map[string]int{regionResource(d5005.Interface): 2, regionResource(n3000.Interface): 4, regionResource(arria.Interface): 1}
	others = map[string]int{
		regionResource(ofs.Interface):                                1,
		"fpga.intel.com/region-d8424dc4a4a3c413f89e433683f9040b":     1,
		"fpga.intel.com/region-xilinx-zynqmp-fpga-manager":           1,
		"fpga.intel.com/region-xilinx-zynq-fpga-manager":             1,
		"fpga.intel.com/region-socfpga-arria10-fpga-manager-pr0":     1,
		"fpga.intel.com/region-socfpga-arria10-fpga-manager-pr1":     1,
		"fpga.intel.com/region-lattice-ice40-fpga-manager":           1,
		"fpga.intel.com/region-microchip-polarfire-spi-fpga-manager": 1,
		"amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0":               1,
		"amd.com/xilinx_u50_gen3x16_xdma_base_5-0":                   1,
	}
	return ports, others
}

func joined(all ...map[string]int) map[string]int {
	sum := map[string]int{}
	for _, m := range all {
		maps.Copy(sum, m)
	}
	return sum
}

// Verifies that a node with every kind of FPGA has the resources that users know, that
// a container gets the nodes of what it has and never those by which cards are
// managed, and that modes are switched while everything runs.
func TestFPGAKinds(t *testing.T) {
	t.Parallel()
	m := everyFPGA()
	n := newFPGANode(t, m)
	n.configureFPGA(modeAF)
	n.startFPGAAgent()
	ports, others := byRegion(m)
	d5005, n3000, arria := m.Cards[0], m.Cards[1], m.Cards[3]
	functions := map[string]int{
		functionResource(d5005.Interface, d5005.AFU): 1,
		functionResource(n3000.Interface, n3000.AFU): 4,
		functionResource(arria.Interface, arria.AFU): 1,
	}
	n.wantCapacities(joined(functions, others))
	empty := portID(n.vf(4), "0")
	n.wantFault(empty, "no-function")
	pid := n.backend("fpga").PID
	own := ownNodes()
	loaded := maps.Clone(own)
	delete(loaded, empty)
	n.wantNodes(loaded)
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", functionResource(n3000.Interface, n3000.AFU), 4)
	n.change(err)
	if got, want := allocation.Devices, []string{n.port(1), portID(m.Cards[5].Address, "2"), portID(n.vf(5), "0"), "fpga-10000-e1-00-2-port-1"}; !slices.Equal(got, want) {
		t.Errorf("a container with four ports has %v, want %v", got, want)
	}
	n.kubelet.Free("pod")

	n.configureFPGA(modeRegion)
	n.wantCapacities(joined(ports, others))
	n.wantNodes(own)
	n.configureFPGA(modeDevel)
	n.wantNodes(with(own, map[string]string{
		n.port(0): "/dev/dfl-fme.0", n.port(1): "/dev/dfl-fme.1", n.port(2): "/dev/dfl-fme.2", n.port(3): "/dev/intel-fpga-fme.0",
		portID(m.Cards[5].Address, "2"): "/dev/dfl-fme.4",
	}))
	n.wantCapacities(joined(ports, others))
	n.configureFPGA(modeAF, "management: true")
	n.wantCapacities(joined(functions, others))
	n.wantNodes(with(loaded, map[string]string{
		n.port(0): "/dev/dfl-fme.0", n.port(1): "/dev/dfl-fme.1", n.port(2): "/dev/dfl-fme.2", n.port(3): "/dev/intel-fpga-fme.0",
		portID(m.Cards[5].Address, "2"): "/dev/dfl-fme.4", portID(n.vf(5), "0"): "/dev/dfl-fme.4", "fpga-10000-e1-00-2-port-1": "/dev/dfl-fme.4",
		"fpga-21770205K01Y-user": "/dev/xclmgmt25856", "fpga-XFL1RTOJJAZX-user": "/dev/xclmgmt26112",
		"fpga-pcap-698c2f54-region": "/dev/fpga6",
	}))
	n.configureFPGA(modeAF)
	n.wantNodes(loaded)
	n.wantWritten()
	if now := n.backend("fpga").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// ownNodes are those of each region of everyFPGA, without those that manage cards.
func ownNodes() map[string]string {
	return map[string]string{
		"fpga-0000-05-00-0-port-0":                        "/dev/dfl-port.0",
		"fpga-devcfg-f8007000-84e5ca5d-region":            "", // variables alone
		"fpga-fpga-0-53a33bb0-region":                     "",
		"fpga-fpga-mgr-1-7f24ea8d-region":                 "",
		"fpga-0000-3b-00-0-port-0":                        "/dev/dfl-port.1",
		"fpga-0000-86-00-0-port-0":                        "/dev/dfl-port.2",
		"fpga-0000-af-00-0-port-0":                        "/dev/intel-fpga-port.0",
		"fpga-0001-05-00-1-port-0":                        "/dev/dfl-port.3",
		"fpga-10000-e1-00-0-port-2":                       "/dev/dfl-port.4",
		"fpga-10000-e1-00-1-port-0":                       "/dev/dfl-port.5",
		"fpga-10000-e1-00-2-port-1":                       "/dev/dfl-port.6",
		"fpga-21770205K01Y-user":                          "/dev/dri/renderD128",
		"fpga-XFL1RTOJJAZX-user":                          "/dev/dri/renderD129",
		"fpga-0000-5e-00-0-region":                        "/dev/uio4",
		"fpga-pcap-698c2f54-region":                       "/dev/uio0 /dev/uio1",
		"fpga-fpga-mgr-ffd03000-7a42a8b0-region-92e2777e": "/dev/uio2",
		"fpga-fpga-mgr-ffd03000-7a42a8b0-region-e38be388": "/dev/uio3",
	}
}

// with adds a management node to the nodes of some regions.
func with(own, management map[string]string) map[string]string {
	all := maps.Clone(own)
	for id, node := range management {
		words := append(strings.Fields(all[id]), node)
		slices.Sort(words)
		all[id] = strings.Join(words, " ")
	}
	return all
}

// wantNodes waits until the CDI definitions are those of these devices, with these nodes.
func (n *fpgaNode) wantNodes(want map[string]string) {
	n.Helper()
	got := map[string]string{}
	if !patience.Within(patience.Long, func() bool {
		clear(got)
		for id, definition := range n.definitions() {
			got[id] = strings.Join(nodes(definition), " ")
		}
		return maps.Equal(got, want)
	}) {
		n.Fatalf("containers get %v\nwant %v", got, want)
	}
}
