package agent

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Verifies that a profile of the chart's example values lists what bitstreams must fit, on a machine
// with cards of Intel's and AMD's, that nothing is complained of, and that the backend may read the
// file that a resource names and ask the driver to program it. Its node is a file here, to
// which the kernel has no such ioctl.
func TestFPGAExample(t *testing.T) {
	t.Parallel()
	tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewVendors())
	if err != nil {
		t.Fatal(err)
	}
	file := fpgadevice.Bitstream{
		Interface: "a5d72a3cc8b04939912cf715e5dc10ca", AFU: "d8424dc4a4a3c413f89e433683f9040b", Payload: []byte("crypto"),
	}
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.ReplaceAll(chartExample(t, "fpga.yaml"), "/var/lib/bitstreams", n.path("bitstreams")))
	options := n.options()
	options.Profile = "programmed"
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: tree.Devfs(), Sysfs: tree.Sysfs()}
	if err := errors.Join(
		tree.OpenNodes(), os.Mkdir(n.path("bitstreams"), 0o755), os.WriteFile(n.path("bitstreams", "crypto.gbs"), file.GBS(), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	n.startAgentWith(options)
	const crypto = "example.com/crypto"
	for resource, units := range map[string]int{
		crypto: 4,
		"fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d": 2,
		"fpga.intel.com/region-f64e598bea11517fa28e7bc65d885104": 1,
		"fpga.intel.com/region-98b4d5bc98ba5f4b98d9a2841ccf11b0": 1,
		"amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0":           1,
		"amd.com/xilinx_u50_gen3x16_xdma_base_5-0":               1,
	} {
		n.wantCounts(resource, units, units)
	}
	if p := n.problems(); p != "" {
		t.Error(p)
	}
	n.allocate("pod", crypto, 1)
	err = n.startContainer("pod")
	for _, want := range []string{"DFL_FPGA_FME_PORT_PR of the node", "crypto.gbs", unix.ENOTTY.Error()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the start ended with %v, want %q in it", err, want)
		}
	}
}
