package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// startFPGAExample is a node with cards of Intel's and AMD's that runs a profile of the
// chart's example values, and what answers its ioctls. The example's crypto.gbs is the file.
func startFPGAExample(t *testing.T, profile string, file fpgadevice.Bitstream) (*node, *fpgadevice.Device) {
	t.Helper()
	fpgadevice.SkipWithoutFilter(t)
	tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewVendors())
	if err != nil {
		t.Fatal(err)
	}
	kernel := fpgadevice.New(t, tree)
	kernel.Know(file)
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.ReplaceAll(chartExample(t, "fpga.yaml"), "/var/lib/bitstreams", n.path("bitstreams")))
	options := n.options()
	options.Profile, options.BackendDir = profile, n.path("backends")
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: tree.Devfs(), Sysfs: tree.Sysfs()}
	const backend = "accelmux-backend-fpga"
	if err := errors.Join(
		os.Mkdir(n.path("backends"), 0o755), os.Mkdir(n.path("bitstreams"), 0o755),
		os.WriteFile(n.path("bitstreams", "crypto.gbs"), file.GBS(), 0o600),
		kernel.Program(filepath.Join(options.BackendDir, backend), filepath.Join(built.Dir(t), backend)),
	); err != nil {
		t.Fatal(err)
	}
	n.startAgentWith(options)
	return n, kernel
}

// Verifies that the chart's example values list what is loaded, or what bitstreams must fit, as
// their comments say; that nothing is complained of but a virtual function that has nothing
// loaded; and that a container has the file in its card that its resource names.
func TestFPGAExample(t *testing.T) {
	t.Parallel()
	file := fpgadevice.Bitstream{
		Interface: "a5d72a3cc8b04939912cf715e5dc10ca", AFU: "d8424dc4a4a3c413f89e433683f9040b", Payload: []byte("crypto"),
	}
	n, _ := startFPGAExample(t, "default", file)
	for resource, units := range map[string]int{
		"fpga.intel.com/af-934.f7d.k0YRbaUtXKiwaqmjie98jfffQFy9es9yIvFEsLk6zRg": 1,
		"fpga.intel.com/af-a5d.9ae.pdcqPMiwSTmRLPcV5dwQyprv_l-EVwYSwADJZg2CQnI": 4,
		"fpga.intel.com/af-f64.d84.9k5Zi-oRUX-ijnvGXYhRBNhCTcSko8QT-J5DNoP5BAs": 1,
		"fpga.intel.com/region-98b4d5bc98ba5f4b98d9a2841ccf11b0":                1,
		"amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0":                          1,
		"amd.com/xilinx_u50_gen3x16_xdma_base_5-0":                              1,
	} {
		n.wantCounts(resource, units, units)
	}
	if p := strings.TrimSpace(n.problems()); strings.Count(p, "\n") > 0 || !strings.Contains(p, "no-function") {
		t.Errorf("complaints: %s", p)
	}
	n.stopAgent()

	const crypto = "example.com/crypto"
	n, kernel := startFPGAExample(t, "programmed", file)
	for resource, units := range map[string]int{
		crypto: 4,
		"fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d": 2,
		"fpga.intel.com/region-f64e598bea11517fa28e7bc65d885104": 1,
		"fpga.intel.com/region-98b4d5bc98ba5f4b98d9a2841ccf11b0": 1,
	} {
		n.wantCounts(resource, units, units)
	}
	if p := n.problems(); p != "" {
		t.Error(p)
	}
	n.allocate("pod", crypto, 1)
	if err := n.startContainer("pod"); err != nil {
		t.Fatal(err)
	}
	if calls := kernel.Calls(fpgadevice.Program); len(calls) != 1 || calls[0].Errno != 0 || calls[0].Size != len(file.Payload) {
		t.Errorf("the card was asked %+v, want one programming", calls)
	}
}
