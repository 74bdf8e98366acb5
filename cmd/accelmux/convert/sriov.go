package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The configuration of the SR-IOV network device plugin (its types ResourceConfig and
// NetDeviceSelectors).
type (
	sriovFile struct {
		ResourceList []sriovResource `yaml:"resourceList"`
	}
	sriovResource struct {
		ResourceName    string                       `yaml:"resourceName"`
		ResourcePrefix  string                       `yaml:"resourcePrefix"`
		DeviceType      string                       `yaml:"deviceType"`
		ExcludeTopology bool                         `yaml:"excludeTopology"`
		AdditionalInfo  map[string]map[string]string `yaml:"additionalInfo"`
		Selectors       []sriovSelectors             `yaml:"selectors"`
	}
	sriovSelectors struct {
		Vendors      []hexID  `yaml:"vendors"`
		Devices      []hexID  `yaml:"devices"`
		Drivers      []string `yaml:"drivers"`
		PCIAddresses []string `yaml:"pciAddresses"`
		ACPIIndexes  []string `yaml:"acpiIndexes"`
		PFNames      []string `yaml:"pfNames"`
		RootDevices  []string `yaml:"rootDevices"`
		LinkTypes    []string `yaml:"linkTypes"`
		IsRDMA       bool     `yaml:"isRdma"`
		NeedVhostNet bool     `yaml:"needVhostNet"`
		DDPProfiles  []string `yaml:"ddpProfiles"`
		PKeys        []string `yaml:"pKeys"`
		VDPAType     string   `yaml:"vdpaType"`
		AuxTypes     []string `yaml:"auxTypes"`
	}
)

const (
	driverVFIO = "vfio-pci"
	// maxFunctions is how many virtual functions a selector may name: they are in an expression.
	maxFunctions = 128
)

// driversUIO are drivers by which a program uses a function through /dev/uio*.
var driversUIO = []string{"uio_pci_generic", "igb_uio"}

// linkTypes are the numbers of link types (if_arp.h).
var linkTypes = map[string]string{"ether": "1", "infiniband": "32"}

// isRDMA is true for a function with an HCA.
const isRDMA = `self.names("infiniband/*").size() > 0`

// rdmaNodes are those of an HCA.
var rdmaNodes = []kindNode{
	{Path: "/dev/infiniband/rdma_cm"},
	{Path: `/dev/infiniband/{self.names("infiniband_verbs/*")}`},
	{Path: `/dev/infiniband/{self.names("infiniband_mad/*")}`, Optional: true},
}

// SRIOV translates the configuration of the SR-IOV network device plugin
// (https://github.com/k8snetworkplumbingwg/sriov-network-device-plugin).
func SRIOV(s Source) ([]byte, []string, error) {
	p := plugin{
		flags:   map[string]bool{"resource-prefix": false, "config-file": false, "use-cdi": true, "v": false, "logtostderr": true, "alsologtostderr": true, "log_dir": false},
		ignored: map[string]string{"config-file": "give the file as FILE", "use-cdi": "CDI is the default; see injection of a resource", "log_dir": "--log-level is a flag of accelmux run"},
	}
	flags, err := p.read(s)
	if err != nil {
		return nil, nil, err
	}
	root, in, err := open(s)
	if err != nil {
		return nil, nil, err
	}
	asLists(field(root, "resourceList"))
	var file sriovFile
	if err := in.decode(root, "", &file); err != nil {
		return nil, nil, err
	}
	d := &sriov{described: described{notes: flags.notes}, input: in, prefix: "intel.com"}
	if prefix := flags.values["resource-prefix"]; prefix != "" {
		d.prefix = prefix
	}
	for i, r := range file.ResourceList {
		if err := d.resource(fmt.Sprintf("resourceList[%d]", i), r); err != nil {
			return nil, nil, err
		}
	}
	return d.result()
}

// asLists makes selectors, which may be one or a list of alternatives, a list.
func asLists(resources *yaml.Node) {
	if resources == nil || resources.Kind != yaml.SequenceNode {
		return
	}
	for _, r := range resources.Content {
		if s := field(r, "selectors"); s != nil && s.Kind == yaml.MappingNode {
			one := *s
			*s = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: s.Line, Content: []*yaml.Node{&one}}
		}
	}
}

// sriov is a conversion in progress.
type sriov struct {
	described
	input
	prefix string
}

// nameOf returns the name of a resource, which must be there once.
func (d *sriov) nameOf(at, prefix, name string) (string, error) {
	if name == "" {
		return "", d.refuse(at, "resourceName is missing")
	}
	full := prefix + "/" + name
	if slices.ContainsFunc(d.resources, func(r poolResource) bool { return r.Name == full }) {
		return "", d.refuse(at+".resourceName", "%q is there twice", full)
	}
	return full, nil
}

func (d *sriov) resource(at string, r sriovResource) error {
	if r.ResourcePrefix == "" {
		r.ResourcePrefix = d.prefix
	}
	name, err := d.nameOf(at, r.ResourcePrefix, r.ResourceName)
	if err != nil {
		return err
	}
	var class string
	switch r.DeviceType {
	case "", "netDevice":
		class = "02"
		d.note("Network interfaces are moved into pods by Multus and the SR-IOV CNI plugin, as before; the device's ID is the PCI address, which they read from kubelet.")
		d.note("The files with device information below /var/run/k8s.cni.cncf.io and the variable PCIDEVICE_..._INFO are not written.")
	case "accelerator":
		class = "12"
	case "auxNetDevice":
		d.note("%s is not translated: there is no counterpart of deviceType auxNetDevice.", name)
		return nil
	default:
		return d.refuse(at+".deviceType", "%q must be netDevice, accelerator or auxNetDevice", r.DeviceType)
	}
	if r.ExcludeTopology {
		d.note("%s: excludeTopology is not translated: kubelet is given the NUMA nodes of devices.", name)
	}
	if len(r.AdditionalInfo) > 0 {
		d.note("%s: additionalInfo is not translated: write variables into edits.env of the kind.", name)
	}
	if len(r.Selectors) == 0 {
		r.Selectors = []sriovSelectors{{}}
	}
	var kinds []string
	for i, s := range r.Selectors {
		k, err := d.kind(fmt.Sprintf("%s.selectors[%d]", at, i), name, class, s)
		if err != nil {
			return err
		}
		kinds = append(kinds, d.add(r.ResourceName, k))
	}
	if len(d.resources) > 0 {
		d.note("A function that two pools select is served by none, with a problem in status: narrow the selectors. The plugin gives it to the first pool.")
	}
	d.serve(name, 1, kinds...)
	return nil
}

// kind returns the kind of one set of selectors.
func (d *sriov) kind(at, resource, class string, s sriovSelectors) (k deviceKind, err error) {
	k.Match.PCI = &pciMatch{Vendors: texts(s.Vendors), Devices: texts(s.Devices), Classes: []string{class}, Drivers: s.Drivers}
	k.ID = "{pci.address}"
	k.Edits.JoinedEnv = map[string]kindJoined{variable("PCIDEVICE", resource): {"{pci.address}"}}
	k.Edits.Nodes = s.nodes()
	if len(k.Edits.Nodes) == 0 { // joined variables alone are no CDI device
		k.Edits.Env = map[string]string{variable("ACCELMUX_POOL", resource): "{kind}"}
	}
	parents, err := d.parents(at, s)
	if err != nil {
		return k, err
	}
	links, err := d.links(at, s.LinkTypes)
	if err != nil {
		return k, err
	}
	// Physical functions whose virtual functions are in use are no devices.
	conditions := []string{`!(self.has("sriov_numvfs") && self.number("sriov_numvfs") > 0)`, parents, links}
	if len(s.PCIAddresses) > 0 {
		conditions = append(conditions, "pci.address in "+listOf(s.PCIAddresses))
	}
	if len(s.ACPIIndexes) > 0 {
		conditions = append(conditions, `self.text("acpi_index") in `+listOf(s.ACPIIndexes))
	}
	if s.IsRDMA {
		conditions = append(conditions, isRDMA)
	}
	k.Match.Where = all(conditions...)
	for name, given := range map[string]bool{
		"ddpProfiles": len(s.DDPProfiles) > 0, "pKeys": len(s.PKeys) > 0, "vdpaType": s.VDPAType != "", "auxTypes": len(s.AuxTypes) > 0,
	} {
		if given {
			return k, d.refuse(at+"."+name, "there is no counterpart: without it more functions would be selected; take it out, and select by pfNames or pciAddresses")
		}
	}
	if class == "02" && parents == "" && len(s.PCIAddresses) == 0 {
		d.note("%s: a port with the node's default route is not left out, as the plugin does: select by pfNames, rootDevices or pciAddresses.", resource)
	}
	return k, nil
}

// nodes returns the device nodes of functions with the drivers.
func (s sriovSelectors) nodes() []kindNode {
	var nodes []kindNode
	if slices.Contains(s.Drivers, driverVFIO) {
		mixed := len(s.Drivers) > 1
		nodes = append(nodes, kindNode{Path: "/dev/vfio/vfio", Optional: mixed}, kindNode{Path: "/dev/vfio/{iommu.group}", Optional: mixed})
	}
	if slices.ContainsFunc(s.Drivers, func(driver string) bool { return slices.Contains(driversUIO, driver) }) {
		nodes = append(nodes, kindNode{Path: `/dev/uio{self.names("uio/*").map(n, n.replace("uio", ""))}`})
	}
	if s.IsRDMA {
		nodes = append(nodes, rdmaNodes...)
	}
	if s.NeedVhostNet {
		nodes = append(nodes, kindNode{Path: "/dev/vhost-net"}, kindNode{Path: "/dev/net/tun"})
	}
	return nodes
}

// parents is the condition on the physical function: by the name of its interface, or by its
// address.
func (d *sriov) parents(at string, s sriovSelectors) (string, error) {
	var names, addresses []string
	for i, text := range s.PFNames {
		name, functions, err := d.functions(fmt.Sprintf("%s.pfNames[%d]", at, i), text)
		if err != nil {
			return "", err
		}
		is := fmt.Sprintf(`self.names("physfn/net/*").exists(n, n == %s)`, strconv.Quote(name))
		if functions == "" {
			is = anyOf(is, fmt.Sprintf(`self.names("net/*").exists(n, n == %s)`, strconv.Quote(name)))
		}
		names = append(names, all(is, functions))
	}
	for i, text := range s.RootDevices {
		address, functions, err := d.functions(fmt.Sprintf("%s.rootDevices[%d]", at, i), text)
		if err != nil {
			return "", err
		}
		is := fmt.Sprintf(`self.has("physfn") && self.link("physfn") == %s`, strconv.Quote(address))
		addresses = append(addresses, all(is, functions))
	}
	return all(anyOf(names...), anyOf(addresses...)), nil
}

var functionRange = regexp.MustCompile(`^(\d{1,5})(?:-(\d{1,5}))?$`)

// functions splits "name#0,2-7" into the name and the condition on the virtual function's index.
func (d *sriov) functions(at, text string) (name, condition string, err error) {
	name, ranges, found := strings.Cut(text, "#")
	if name == "" {
		return "", "", d.refuse(at, "%q has no name", text)
	}
	if !found {
		return name, "", nil
	}
	var links []string
	for part := range strings.SplitSeq(ranges, ",") {
		m := functionRange.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return "", "", d.refuse(at, "%q must be a name, #, and numbers of virtual functions, such as eth0#0,2-7", text)
		}
		first, _ := strconv.Atoi(m[1]) // of digits
		last := first
		if m[2] != "" {
			last, _ = strconv.Atoi(m[2])
		}
		if last < first {
			return "", "", d.refuse(at, "%q ends before it begins", part)
		}
		for n := first; n <= last && len(links) <= maxFunctions; n++ {
			links = append(links, "virtfn"+strconv.Itoa(n))
		}
	}
	if len(links) > maxFunctions {
		return "", "", d.refuse(at, "more than %d virtual functions cannot be named: leave the numbers out, or select by pciAddresses", maxFunctions)
	}
	return name, listOf(links) + `.exists(v, self.has("physfn/" + v) && self.link("physfn/" + v) == pci.address)`, nil
}

// links is the condition on the type of the link.
func (i input) links(at string, types []string) (string, error) {
	var numbers []string
	for j, t := range types {
		n, ok := linkTypes[t]
		if !ok {
			return "", i.refuse(fmt.Sprintf("%s.linkTypes[%d]", at, j), "%q must be ether or infiniband", t)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) == 0 {
		return "", nil
	}
	return `self.names("net/*").exists(n, self.text("net/" + n + "/type") in ` + listOf(numbers) + ")", nil
}

func texts(ids []hexID) []string {
	var all []string
	for _, id := range ids {
		if text := string(id); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}
