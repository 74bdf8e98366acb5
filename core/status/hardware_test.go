package status

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/pcibus"
)

// TestHardwareProblems verifies what is reported of hardware without a backend and of
// backends without hardware, one line for each cause, and when nothing is.
func TestHardwareProblems(t *testing.T) {
	gpu := func(address, driver string) pcibus.Accelerator {
		return pcibus.Accelerator{Address: address, Vendor: "10de", Device: "15f8", Class: "0302", Driver: driver, Backends: []string{"nvidia"}}
	}
	card := pcibus.Accelerator{Address: "0000:07:00.0", Vendor: "10ee", Device: "5000", Class: "1200", Driver: "xclmgmt", Backends: []string{"fpga"}}
	unknown := pcibus.Accelerator{Address: "0000:0c:00.0", Vendor: "1b36", Device: "0005", Class: "1200"}
	two := []pcibus.Accelerator{gpu("0000:05:00.0", ""), gpu("0000:06:00.0", "nvidia")}
	chosen := &config.NodeSelector{}
	const covered = ", which no backend of the profile p covers: "
	const none = "it lists no devices, and the PCI bus has no hardware for it: give the profile p a nodeSelector that leaves this node out, or take the backend out of it"
	for name, tc := range map[string]struct {
		found    []pcibus.Accelerator
		backends []string // those of the profile, with a "+" if they list a device at 0000:05:00, "!" if they have a problem with 0000:06:00.0, "?" if they have not reported, "*" if their program has another name
		selector *config.NodeSelector
		ignore   []string
		want     []string
	}{
		"no accelerators": {nil, []string{"mock"}, nil, nil, nil},
		"mock alone":      {two[:1], []string{"mock+"}, nil, nil, nil}, // its device stands for the GPU
		"uncovered, of several kinds": {append(two, card, unknown), []string{"mock"}, nil, nil, []string{
			"the PCI bus has 2 accelerators, 0000:05:00.0 (10de:15f8, class 0302) and 1 more" + covered + "add the backend nvidia, or add 10de to the profile's ignorePCI",
			"the PCI bus has the accelerator 0000:07:00.0 (10ee:5000, class 1200)" + covered + "add the backend fpga, or add 10ee to the profile's ignorePCI",
			"the PCI bus has the accelerator 0000:0c:00.0 (1b36:0005, class 1200)" + covered + "no manifest in the backend directory has this hardware, or add 1b36 to the profile's ignorePCI",
		}},
		"ignored":        {append(two, card, unknown), []string{"mock"}, nil, []string{"10de", "10ee:5000", "1b36"}, nil},
		"another device": {[]pcibus.Accelerator{card}, []string{"mock"}, nil, []string{"10ee:5001"}, []string{"the PCI bus has the accelerator 0000:07:00.0"}},
		"listed":         {two[:1], []string{"nvidia+"}, nil, nil, nil},
		"one of two is not listed": {two, []string{"nvidia+"}, nil, nil, []string{
			"nvidia: it does not list the accelerator 0000:06:00.0 (10de:15f8, class 0302): the kernel driver is nvidia; see the backend's log"}},
		"one of two has no driver": {[]pcibus.Accelerator{two[0], gpu("0000:07:00.0", "")}, []string{"nvidia+"}, nil, nil, []string{
			"nvidia: it does not list the accelerator 0000:07:00.0 (10de:15f8, class 0302): no kernel driver is bound"}},
		"one of two is ignored":     {append(two[:1:1], card), []string{"nvidia+", "fpga"}, chosen, []string{"10ee"}, []string{"fpga: " + none}},
		"one of two has a problem":  {two, []string{"nvidia+!"}, nil, nil, nil},
		"listed by another backend": {two[:1], []string{"mock+", "nvidia"}, nil, nil, []string{"nvidia: it lists no devices, but the PCI bus has the accelerator 0000:05:00.0"}},
		"not listed, no driver": {two, []string{"nvidia"}, nil, nil, []string{
			"nvidia: it lists no devices, but the PCI bus has 2 accelerators, 0000:05:00.0 (10de:15f8, class 0302) and 1 more: no kernel driver is bound; load the vendor's driver"}},
		"not listed":                {two[1:], []string{"nvidia"}, nil, nil, []string{"nvidia: it lists no devices, but the PCI bus has the accelerator 0000:06:00.0 (10de:15f8, class 0302): the kernel driver is nvidia"}},
		"program of another name":   {two[1:], []string{"nvidia*"}, nil, nil, []string{"nvidia: it lists no devices, but the PCI bus has the accelerator 0000:06:00.0"}},
		"not reported":              {two, []string{"nvidia?"}, nil, nil, nil},
		"no hardware":               {nil, []string{"nvidia"}, nil, nil, []string{"nvidia: " + none}},
		"one of several":            {two[:1], []string{"nvidia+", "fpga"}, nil, nil, nil},
		"one of several, by labels": {two[:1], []string{"nvidia+", "fpga"}, chosen, nil, []string{"fpga: " + none}},
		"none of several":           {nil, []string{"nvidia", "fpga"}, nil, nil, []string{"nvidia: " + none, "fpga: " + none}},
		"devices without hardware":  {nil, []string{"nvidia+"}, nil, nil, nil}, // in a virtual machine without a PCI bus, say
	} {
		t.Run(name, func(t *testing.T) {
			profile := &config.Profile{Name: "p", NodeSelector: tc.selector, IgnorePCI: tc.ignore}
			var reported []*inventory.Backend
			for _, text := range tc.backends {
				name := strings.TrimRight(text, "+!?*")
				backend := config.Backend{Name: name, Command: config.CommandPrefix + name}
				b := &inventory.Backend{Name: name}
				if strings.HasSuffix(text, "*") {
					backend.Command, b.Description.Name = "wrapper", name
				}
				profile.Backends = append(profile.Backends, backend)
				if strings.Contains(text, "!") {
					b.Problems = []inventory.Problem{{Message: "0000:06:00.0 is left out: it does not answer"}}
				}
				if strings.Contains(text, "+") {
					b.Devices = []*inventory.Device{{PCIBusID: "0000:05:00.0"}}
				}
				if !strings.HasSuffix(text, "?") {
					reported = append(reported, b)
				}
			}
			got := hardwareProblems(profile, reported, tc.found, pcibus.Table{{Backend: "nvidia"}, {Backend: "fpga"}})
			for i, p := range got {
				text := p.Message
				if p.Backend != "" {
					text = p.Backend + ": " + text
				}
				if i >= len(tc.want) || !strings.HasPrefix(text, tc.want[i]) {
					t.Errorf("problem %q, want %q", text, tc.want)
				}
			}
			if len(got) != len(tc.want) {
				t.Errorf("problems %+v, want %q", got, tc.want)
			}
		})
	}
}
