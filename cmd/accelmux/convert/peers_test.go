package convert

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/test/devicetree"
)

var update = flag.Bool("update", false, "write the golden files")

// peers are the conversions to described devices, by the names of their examples.
var peers = map[string]func(Source) ([]byte, []string, error){
	"generic-device-plugin": Generic, "smarter-device-manager": Smarter, "sriov-device-plugin": SRIOV, "rdma-shared-device-plugin": RDMA, "kubevirt": KubeVirt,
}

// compiled returns the kinds of a node configuration, which the backend accepts.
func compiled(t *testing.T, name string, text []byte) []*description.Compiled {
	t.Helper()
	loaded, err := config.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	var settings struct {
		Kinds []description.Kind `json:"kinds"`
	}
	if err := json.Unmarshal(json.RawMessage(loaded.Profiles[0].Backends[0].Settings), &settings); err != nil {
		t.Fatal(err)
	}
	var errs sdk.FieldErrors
	var kinds []*description.Compiled
	var names []string
	for i, k := range settings.Kinds {
		names = append(names, k.Name)
		kinds = append(kinds, description.Compile(fmt.Sprintf("kinds[%d]", i), k, &errs))
	}
	description.CheckNames("kinds", names, &errs)
	if err := errs.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return kinds
}

// Verifies that each example becomes the node configuration of its golden file, which is valid
// and which the backend for described devices accepts.
func TestPeers(t *testing.T) {
	for name, convert := range peers {
		t.Run(name, func(t *testing.T) {
			in, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			text, notes, err := convert(Source{Name: name + ".yaml", File: in})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(text), "\n# ") != len(notes) { // after the first line, which is for editors
				t.Errorf("%d notes, and in the result\n%s", len(notes), text)
			}
			compiled(t, name, text)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != string(text) {
				t.Errorf("%s differs (-update writes it):\n%s", golden, text)
			}
		})
	}
}

// Verifies on a made tree what the results of the examples select, and its device nodes.
func TestSelected(t *testing.T) {
	lines, err := os.ReadFile("testdata/node.tree")
	if err != nil {
		t.Fatal(err)
	}
	tree := devicetree.New(t, string(lines))
	finder := match.Finder{Host: tree.Host(), Node: devicetree.Node}
	for name, want := range map[string][]string{
		"generic-device-plugin":  {"audio: snd /dev/snd", "capture: pcmC0D0c /dev/snd/pcmC0D0c /dev/snd/controlC0", "fuse: fuse /dev/fuse"},
		"smarter-device-manager": {"gpiochip: gpiochip0 /dev/gpiochip0", "snd: snd /dev/snd"},
		"sriov-device-plugin": {
			"fpga: 0000:1c:00.0 /dev/uio7",
			"ib: 0000:19:00.0",
			"sriov-dpdk-2: 0000:18:02.3 /dev/vfio/vfio /dev/vfio/3 /dev/vhost-net /dev/net/tun",
			"sriov-dpdk: 0000:18:02.2 /dev/vfio/vfio /dev/vfio/2",
			"sriov-netdevice: 0000:18:02.0", "sriov-netdevice: 0000:18:02.1",
			"sriov-rdma: 0000:19:00.0 /dev/infiniband/rdma_cm /dev/infiniband/uverbs0 /dev/infiniband/issm0 /dev/infiniband/umad0",
			"sub: mlx5_core.sf.2 /dev/infiniband/rdma_cm /dev/infiniband/uverbs1",
			"vdpa: 0000:18:02.1 /dev/vhost-vdpa-3 driver=vhost parent-device=vdpa0 path=/dev/vhost-vdpa-3 pci-address=0000:18:02.1 pf-pci-address=0000:18:00.0",
		},
		"rdma-shared-device-plugin": {
			"hca-shared-devices-a: 0000:19:00.0 /dev/infiniband/rdma_cm /dev/infiniband/uverbs0 /dev/infiniband/issm0 /dev/infiniband/umad0",
		},
		"kubevirt": {
			"grid-t4-1q: 83b8f4f2-509f-382f-3c1e-e6bfe0fa1001 /dev/vfio/41 /dev/vfio/vfio",
			"tu104gl-tesla-t4: 0000:1a:00.0 /dev/vfio/40 /dev/vfio/vfio",
		},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range compiled(t, name, text) {
			got = append(got, selected(t, finder, k)...)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// selected are the objects of a kind with their nodes.
func selected(t *testing.T, finder match.Finder, k *description.Compiled) (lines []string) {
	t.Helper()
	objects, problems := finder.Find(&k.Match.Selector)
	if len(problems) > 0 {
		t.Errorf("%s: %v", k.Name, problems)
	}
	for _, o := range objects {
		scope := &expression.Scope{Kind: k.Name, Object: o, Sys: match.Root(finder.Host.Sysfs)}
		if k.Where != nil {
			if is, err := k.Where.True(scope); err != nil {
				t.Errorf("%s: %v", o.Name, err)
			} else if !is {
				continue
			}
		}
		line := k.Name + ": " + o.Name
		if len(k.Nodes) == 0 && o.Node != "" {
			line += " " + o.Node
		}
		for _, n := range k.Nodes {
			paths, err := n.Path.Texts(scope)
			if err != nil {
				t.Errorf("%s: %v", o.Name, err)
			}
			for _, p := range paths {
				line += " " + p
			}
		}
		for _, name := range slices.Sorted(maps.Keys(k.DeviceInfo.Fields)) {
			if value, err := k.DeviceInfo.Fields[name].Eval(scope); err == nil && k.DeviceInfo.Type == "vdpa" {
				line += fmt.Sprintf(" %s=%s", name, value)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// Verifies that containers may get the nodes of a translated configuration, and those to which a link of udev may lead: the
// manifest has them, and allow need not.
func TestNodesAreGiven(t *testing.T) {
	device, err := manifest.Load("../../../backends/device/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	generic := func(path string) Source {
		return Source{Name: "f.yaml", File: fmt.Appendf(nil, "devices: [{name: a, groups: [{paths: [{path: %q}, {path: /dev/fuse}]}]}]\n", path)}
	}
	for name, c := range map[string]struct {
		convert func(Source) ([]byte, []string, error)
		source  Source
		want    []string
	}{
		"a pattern":      {Smarter, Source{Name: "f.yaml", File: []byte("- devicematch: ^kv[mn]$\n  nummaxdevices: 1\n")}, []string{"/dev/kv*"}},
		"a directory":    {Generic, generic("/dev/vfio"), []string{"/dev/fuse", "/dev/vfio"}},
		"serial by-id":   {Generic, generic("/dev/serial/by-id/usb-x-if00-port0"), []string{"/dev/fuse", "/dev/serial/by-id/usb-x-if00-port0", "/dev/ttyACM*", "/dev/ttyUSB*"}},
		"serial by-path": {Generic, generic("/dev/serial/by-path/pci-*"), []string{"/dev/fuse", "/dev/serial/by-path/pci-*", "/dev/ttyACM*", "/dev/ttyUSB*"}},
		"input":          {Generic, generic("/dev/input/by-id/usb-x-event-kbd"), []string{"/dev/fuse", "/dev/hidraw*", "/dev/input/by-id/usb-x-event-kbd", "/dev/input/event*", "/dev/input/js*", "/dev/input/mouse*"}},
		"no stable link": {Generic, generic("/dev/serial/x"), []string{"/dev/fuse", "/dev/serial/x"}},
	} {
		text, _, err := c.convert(c.source)
		if err != nil {
			t.Fatal(name, err)
		}
		loaded, err := config.Parse("node.yaml", text)
		if err != nil {
			t.Fatal(name, err)
		}
		rights, err := device.Rights(json.RawMessage(loaded.Profiles[0].Backends[0].Settings))
		if err != nil || !slices.Equal(rights.Containers.Devices, c.want) || len(rights.Ungiven) > 0 {
			t.Errorf("%s: %v, %q, not %v in\n%s", name, err, rights.Containers.Devices, rights.Ungiven, text)
		}
	}
}

// Verifies that wrong input is refused with file, line and field, and what has no counterpart at
// all.
func TestPeersRefuse(t *testing.T) {
	const configMap = "apiVersion: v1\nkind: ConfigMap\ndata:\n  config.json: |\n    "
	for name, c := range map[string]struct {
		convert func(Source) ([]byte, []string, error)
		file    string
		args    []string
		want    string
	}{
		"nothing":            {SRIOV, "", nil, "FILE is missing or empty"},
		"several objects":    {KubeVirt, "kind: List\nitems: [{kind: KubeVirt}, {kind: KubeVirt}]\n", nil, "it has no spec.configuration.permittedHostDevices"},
		"one of a list":      {KubeVirt, "kind: List\nitems:\n- spec:\n    configuration:\n      permittedHostDevices: {usb: [{resourceName: a}]}\n", nil, "f.yaml:5: spec.configuration.permittedHostDevices.usb[0]: it has no selectors"},
		"not YAML":           {SRIOV, "a: [\n", nil, "f.yaml:1: this is not YAML"},
		"a ConfigMap of two": {SRIOV, "kind: ConfigMap\ndata:\n  a: x\n  b: y\n", nil, "f.yaml:1: data: the ConfigMap must have one value"},
		"an empty value":     {SRIOV, "kind: ConfigMap\ndata:\n  a: ''\n", nil, `f.yaml (data["a"]):3: it is empty`},
		"a bad anchor":       {SRIOV, "kind: ConfigMap\ndata:\n  a: '*'\n", nil, `f.yaml (data["a"]):3: this is not YAML`},
		"broken JSON":        {SRIOV, configMap + "{\n      \"resourceList\": [{]\n    }\n", nil, `f.yaml (data["config.json"]):6: this is not YAML`},

		"a device's typo":     {Generic, "devices:\n- name: a\n  groups:\n  - path: []\n", nil, "f.yaml:4: devices[0].groups[0].path: "},
		"a flag's typo":       {Generic, "", []string{"--device", "name: a\ngroups:\n- paths: [{pat: /dev/a}]"}, "--device 1:3: groups[0].paths[0].pat"},
		"an unknown flag":     {Generic, "", []string{"--devices", "a"}, `"--devices" is not a flag of the plugin; did you mean "device"?`},
		"no device":           {Generic, "domain: a.b\n", nil, "there is no device"},
		"paths and usb":       {Generic, "devices:\n- name: a\n  groups:\n  - paths: [{path: /dev/a}]\n    usb: [{vendor: 1, product: 2}]\n", nil, "f.yaml:4: devices[0].groups[0]: a group has either paths or usb"},
		"an empty group":      {Generic, "devices:\n- name: a\n  groups:\n  - count: 2\n", nil, "f.yaml:4: devices[0].groups[0]: the group has neither"},
		"a USB vendor":        {Generic, "devices:\n- name: a\n  groups:\n  - usb: [{vendor: xyz, product: 1}]\n", nil, `f.yaml:4: devices[0].groups[0].usb[0].vendor: "xyz" must be`},
		"half a USB device":   {Generic, "devices:\n- name: a\n  groups:\n  - usb: [{vendor: 1a86}]\n", nil, "usb[0]: vendor and product must be given"},
		"a relative path":     {Generic, "devices:\n- name: a\n  groups:\n  - paths:\n    - path: dev/a\n", nil, `f.yaml:5: devices[0].groups[0].paths[0].path: "dev/a" must be`},
		"a pattern":           {Generic, "devices:\n- name: a\n  groups:\n  - paths:\n    - path: /dev/a[\n", nil, "paths[0].path"},
		"a type":              {Generic, "devices:\n- name: a\n  groups:\n  - paths:\n    - path: /dev/a\n      type: device\n", nil, `f.yaml:6: devices[0].groups[0].paths[0].type: "device" must be Device or Mount`},
		"permissions":         {Generic, "devices:\n- name: a\n  groups:\n  - paths:\n    - {path: /dev/a, permissions: x}\n", nil, "permissions: \"x\" must be of r, w and m"},
		"a negative count":    {Generic, "devices:\n- name: a\n  groups:\n  - count: -1\n    paths: [{path: /dev/a}]\n", nil, "f.yaml:4: devices[0].groups[0].count: -1 must be at least 1"},
		"no name":             {Generic, "devices:\n- groups: []\n", nil, `f.yaml:2: devices[0].name: "" is not the name`},
		"nothing translated":  {Generic, "devices:\n- name: a\n  groups:\n  - paths: [{path: /dev/*}]\n", nil, "f.yaml:1: nothing of the configuration has a counterpart"},
		"a domain":            {Generic, "domain: a_b\ndevices:\n- name: a\n  groups:\n  - paths: [{path: /dev/a}]\n", nil, `f.yaml:1: domain: "a_b" is not a domain`},
		"a flag's domain":     {Generic, "", []string{"--domain", "a b", "--device", "{name: a, groups: [{paths: [{path: /dev/a}]}]}"}, `flag --domain: "a b" is not a domain`},
		"MicroShift's typo":   {Generic, "dns: {}\ngenericDevicePlugin:\n  devices:\n  - name: a\n    groups:\n    - usbs: [{vendor: 1}]\n", nil, "f.yaml:6: genericDevicePlugin.devices[0].groups[0].usbs[0]: vendor and product"},
		"a prefix":            {SRIOV, "resourceList:\n- resourceName: a\n  resourcePrefix: a_b\n", nil, `f.yaml:3: resourceList[0].resourcePrefix: "a_b" is not a domain`},
		"a long name":         {SRIOV, "resourceList:\n- selectors: {}\n  resourceName: " + strings.Repeat("a", 70) + "\n", nil, "f.yaml:3: resourceList[0].resourceName: "},
		"a DaemonSet":         {SRIOV, "kind: DaemonSet\nmetadata: {namespace: kube-system}\nspec: {template: {spec: {volumes: [{configMap: {name: sriovdp-config}}]}}}\n", nil, "f.yaml:1: this is the DaemonSet of the plugin, whose configuration is in the ConfigMap sriovdp-config that it mounts: give that, from `kubectl get configmap -n kube-system sriovdp-config -o yaml`"},
		"a policy's other":    {SRIOV, "kind: NicClusterPolicy\nspec:\n  rdmaSharedDevicePlugin: {config: '{}'}\n", nil, "f.yaml:1: spec: the policy has no configuration of this plugin; `accelmux convert rdma-shared-device-plugin` translates its rdmaSharedDevicePlugin"},
		"a policy's typo":     {RDMA, "kind: NicClusterPolicy\nspec:\n  rdmaSharedDevicePlugin:\n    config: |\n      {\"configList\": [\n        {\"resourceNam\": \"a\"}]}\n", nil, "f.yaml (spec.rdmaSharedDevicePlugin.config):6: configList[0].resourceNam: "},
		"a mapping":           {Smarter, "devicematch: ^a$\n", nil, "f.yaml:1: it must be a list"},
		"an expression":       {Smarter, "- devicematch: ^a$\n  nummaxdevices: 1\n- devicematch: '['\n  nummaxdevices: 1\n", nil, `f.yaml:3: [1].devicematch: "[" is not a regular expression`},
		"no number":           {Smarter, "- devicematch: ^a$\n", nil, "f.yaml:1: [0].nummaxdevices: 0 must be at least 1"},
		"smarter's flags":     {Smarter, "- devicematch: ^a$\n", []string{"-v"}, `"-v": the flags of smarter-device-manager are not translated`},
		"a selector's typo":   {SRIOV, `{"resourceList": [{"resourceName": "a", "selectors": {"vendor": ["8086"]}}]}`, nil, `f.yaml:1: resourceList[0].selectors[0].vendor: `},
		"a device type":       {SRIOV, "resourceList:\n- resourceName: a\n  deviceType: netdevice\n", nil, `f.yaml:3: resourceList[0].deviceType: "netdevice" must be netDevice`},
		"no resource name":    {SRIOV, "resourceList:\n- selectors: {}\n", nil, "f.yaml:2: resourceList[0]: resourceName is missing"},
		"a name twice":        {SRIOV, "resourceList:\n- resourceName: a\n- resourceName: a\n", nil, `f.yaml:3: resourceList[1].resourceName: "intel.com/a" is there twice`},
		"a range":             {SRIOV, "resourceList:\n- resourceName: a\n  selectors:\n    pfNames: [\"eth0#7-2\"]\n", nil, `f.yaml:4: resourceList[0].selectors[0].pfNames[0]: "7-2" ends before it begins`},
		"no range":            {SRIOV, "resourceList:\n- resourceName: a\n  selectors:\n    rootDevices: [\"0000:01:00.0#x\"]\n", nil, "such as eth0#0,2-7"},
		"a long range":        {SRIOV, "resourceList:\n- resourceName: a\n  selectors:\n    pfNames: [\"eth0#0-99999\"]\n", nil, "more than 128 functions"},
		"a link type":         {SRIOV, "resourceList:\n- resourceName: a\n  selectors:\n    linkTypes: [ib]\n", nil, `f.yaml:4: resourceList[0].selectors[0].linkTypes[0]: "ib" must be`},
		"profiles":            {SRIOV, "resourceList:\n- resourceName: a\n  selectors:\n    ddpProfiles: [x]\n", nil, "f.yaml:4: resourceList[0].selectors[0].ddpProfiles: there is no counterpart"},
		"vDPA's type":         {SRIOV, "resourceList:\n- resourceName: a\n  selectors:\n    vdpaType: vhot\n", nil, `f.yaml:4: resourceList[0].selectors[0].vdpaType: "vhot" must be vhost or virtio`},
		"SR-IOV's flag":       {SRIOV, "resourceList: []\n", []string{"--resource-prefx=a.b"}, `did you mean "resource-prefix"?`},
		"RDMA's typo":         {RDMA, "configList:\n- resourceName: a\n  rdmaHcaMx: 3\n", nil, "f.yaml:3: configList[0].rdmaHcaMx: "},
		"RDMA's number":       {RDMA, "configList:\n- resourceName: a\n", nil, "f.yaml:2: configList[0].rdmaHcaMax: 0 must be at least 1"},
		"no permitted device": {KubeVirt, "spec: {}\n", nil, "f.yaml:1: it has no spec.configuration.permittedHostDevices"},
		"KubeVirt's typo":     {KubeVirt, "permittedHostDevices:\n  pciHostDevice: []\n", nil, "f.yaml:2: permittedHostDevices.pciHostDevice: "},
		"a PCI selector":      {KubeVirt, "pciHostDevices:\n- pciVendorSelector: 10de\n  resourceName: a.b/c\n", nil, `f.yaml:2: pciHostDevices[0].pciVendorSelector: "10de" must be`},
		"a resource's name":   {KubeVirt, "pciHostDevices:\n- pciVendorSelector: 10de:1eb8\n  resourceName: c\n", nil, `f.yaml:3: pciHostDevices[0].resourceName: "c" must be`},
		"no USB selector":     {KubeVirt, "usb:\n- resourceName: a.b/c\n", nil, "f.yaml:2: usb[0]: it has no selectors"},
	} {
		t.Run(name, func(t *testing.T) {
			text, _, err := c.convert(Source{Name: "f.yaml", File: []byte(c.file), Args: c.args})
			if err == nil || !strings.Contains(withoutColumns(err), c.want) {
				t.Errorf("%v, want %q\n%s", err, c.want, text)
			}
		})
	}
}

// Verifies that the objects in which operators and distributions have a configuration are read as the configuration is.
func TestWrapped(t *testing.T) {
	const rdma, generic = "configList:\n- resourceName: a\n  rdmaHcaMax: 3\n", "devices:\n- name: a\n  groups:\n  - usb: [{vendor: 1a86, product: 7523}]\n"
	indented := func(text, by string) string {
		return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by) + "\n"
	}
	for name, c := range map[string]struct {
		convert       func(Source) ([]byte, []string, error)
		plain, object string
		notes         string // further ones
	}{
		"policy":           {RDMA, rdma, "kind: NicClusterPolicy\nspec:\n  ofedDriver: {}\n  rdmaSharedDevicePlugin:\n    config: |\n" + indented(rdma, "      "), ""},
		"policy of a node": {RDMA, rdma, "kind: List\nitems:\n- kind: NicNodePolicy\n  spec:\n    rdmaSharedDevicePlugin:\n      config: |\n" + indented(rdma, "        "), ""},
		"MicroShift": {
			Generic, "domain: device.microshift.io\n" + generic,
			"apiServer: {}\ngenericDevicePlugin:\n  status: Enabled\n" + indented(strings.ReplaceAll(generic, "usb:", "usbs:"), "  "),
			"# Set genericDevicePlugin.status: Disabled in the configuration of MicroShift, so that it leaves these devices to accelmux.\n",
		},
		"DaemonSet": {
			Generic, generic,
			"kind: DaemonSet\nspec:\n  template:\n    spec:\n      containers:\n      - args:\n        - --device\n        - |\n" + indented("name: a\ngroups: [{usb: [{vendor: 1a86, product: 7523}]}]", "          "), "",
		},
	} {
		want, _, err := c.convert(Source{Name: "f.yaml", File: []byte(c.plain)})
		if err != nil {
			t.Fatal(name, err)
		}
		got, _, err := c.convert(Source{Name: "f.yaml", File: []byte(c.object)})
		if text := strings.Replace(string(got), c.notes, "", 1); err != nil || text != string(want) || !strings.Contains(string(got), c.notes) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// Whatever a file has, it is translated to what the backend accepts, or refused without a panic.
func FuzzPeers(f *testing.F) {
	for name := range peers {
		text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, convert := range peers {
			if out, _, err := convert(Source{Name: "f.yaml", File: []byte(text)}); err == nil {
				compiled(t, name, out)
			}
		}
	})
}

// withoutColumns returns the text of an error without the columns, which package config verifies.
func withoutColumns(err error) string {
	return regexp.MustCompile(`(?m)^([^:]+:\d+):\d+: `).ReplaceAllString(err.Error(), "$1: ")
}
