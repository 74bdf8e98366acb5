package device

import (
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/devicetree"
)

// Hardware of a preset in a state in which it is no device is a problem with what to do, and no problem in any other state.
// The IDs are those of the kernel's drivers: 4940 and 4941 are a QAT 4xxx and its virtual functions, 7d1d an NPU, 56c0 a GPU.
func TestUnservedHardware(t *testing.T) {
	t.Parallel()
	function := func(n int, vendor, device, class, driver string, files ...string) string {
		at := fmt.Sprintf("0000:6b:00.%d", n)
		text := fmt.Sprintf("sys/bus/pci/devices/%s -> ../../../devices/pci0000:6b/%[1]s\nDIR/vendor: 0x%s\nDIR/device: 0x%s\nDIR/class: 0x%s\n", at, vendor, device, class)
		if driver != "" {
			text += "DIR/driver -> ../../../bus/pci/drivers/" + driver + "\n"
		}
		for _, f := range files {
			text += "DIR/" + f + "\n"
		}
		return strings.ReplaceAll(text, "DIR", "sys/devices/pci0000:6b/"+at)
	}
	qat := func(n int, driver string) string {
		return function(n, "8086", "4941", "0b4000", driver, "physfn -> ../0000:6b:00.0")
	}
	const notListed = ": it is not listed: "
	for name, c := range map[string]struct {
		preset, tree string
		want         []string
	}{
		"a card without virtual functions": {"intel-qat", function(0, "8086", "4940", "0b4000", "4xxx", "sriov_totalvfs: 16", "sriov_numvfs: 0"),
			[]string{"0000:6b:00.0: kind intel-qat" + notListed + "containers get only virtual functions, and it has none: write their number, at most 16, to /sys/bus/pci/devices/0000:6b:00.0/sriov_numvfs, and bind them to vfio-pci"}},
		"a card without driver": {"intel-qat", function(0, "8086", "4940", "0b4000", "", "sriov_totalvfs: 16", "sriov_numvfs: 0"),
			[]string{"0000:6b:00.0: kind intel-qat" + notListed + "no driver is bound to it: load the module of the card, make virtual functions"}},
		"a card with virtual functions of the node, without driver, and for virtual machines": {"intel-qat",
			function(0, "8086", "4940", "0b4000", "4xxx", "sriov_totalvfs: 16", "sriov_numvfs: 4") + qat(1, "4xxxvf") + qat(2, "") + qat(3, "4xxxvf") + qat(4, "mlx5_vfio_pci") + qat(5, "pci-stub"),
			[]string{"0000:6b:00.1: kind intel-qat: it is not listed (and 1 more): it is bound to the driver 4xxxvf: bind it to vfio-pci instead", "0000:6b:00.2: kind intel-qat" + notListed + "no driver is bound to it: bind it to vfio-pci"}},
		"another card":                {"intel-qat", function(0, "8086", "1592", "020000", ""), nil},
		"a GPU without driver":        {"intel-gpu", function(0, "8086", "56c0", "038000", ""), []string{"0000:6b:00.0: kind intel-gpu" + notListed + "no driver is bound to it: load the module of i915 or xe"}},
		"a GPU for virtual machines":  {"intel-gpu", function(0, "8086", "56c0", "038000", "vfio-pci"), nil},
		"a virtual GPU":               {"intel-gpu", function(0, "8086", "56c0", "038000", "", "physfn -> ../0000:6b:00.1") + function(1, "8086", "56c0", "038000", "xe"), nil},
		"an NPU without driver":       {"intel-npu", function(0, "8086", "7d1d", "120000", ""), []string{"0000:6b:00.0: kind intel-npu" + notListed + "no driver is bound to it: load the module of intel_vpu"}},
		"a Trainium without driver":   {"aws-neuron", function(0, "1d0f", "7164", "088000", ""), []string{"0000:6b:00.0: kind aws-neuron" + notListed + "no driver is bound to it: load the module of neuron-driver"}},
		"an ATOM without driver":      {"rebellions", function(0, "1eff", "1220", "120000", ""), []string{"0000:6b:00.0: kind rebellions" + notListed + "no driver is bound to it: load the module of rebellions"}},
		"a network card of Amazon's":  {"aws-neuron", function(0, "1d0f", "ec20", "020000", ""), nil},
		"an accelerator of Intel DSA": {"intel-dsa", function(0, "8086", "0b25", "088000", ""), []string{"0000:6b:00.0: kind intel-dsa" + notListed + "no driver is bound to it: load the module of idxd"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := list(t, devicetree.New(t, c.tree).Host(), `{"presets": ["`+c.preset+`"]}`)
			same := len(problems) == len(c.want)
			for i := range min(len(problems), len(c.want)) {
				same = same && strings.Contains(problems[i], c.want[i])
			}
			if !same {
				t.Errorf("%q\nwant %q", problems, c.want)
			}
		})
	}
}
