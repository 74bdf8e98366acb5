package convert

import (
	"fmt"
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
	// auxiliary is in the place of a PCI class for devices of the auxiliary bus.
	auxiliary = ""
	// maxFunctions is how many virtual functions a selector may name: they are in an expression.
	maxFunctions = 128
)

// isUIO and isVFIO report whether a program uses a function through a node of the driver.
func isUIO(driver string) bool  { return driver == "uio_pci_generic" || driver == "igb_uio" }
func isVFIO(driver string) bool { return strings.Contains(driver, "vfio") }

// linkTypes are the numbers of link types (if_arp.h).
var linkTypes = map[string]string{"ether": "1", "infiniband": "32"}

// isRDMA is true for a function with an HCA. The directory is there, but empty, while the HCA is in another network
// namespace (rdma system set netns exclusive), as sysfs shows what is in the one in which it was mounted.
const isRDMA = `self.has("infiniband")`

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
	root, in, err := open(s, "sriovDevicePlugin")
	if err != nil {
		return nil, nil, err
	}
	asLists(field(root, "resourceList"))
	var file sriovFile
	if err := in.decode(root, "", &file); err != nil {
		return nil, flags.notes, err
	}
	d := &sriov{described: described{notes: flags.notes, overlap: " So does the plugin."}, input: in, prefix: "intel.com"}
	if prefix := flags.values["resource-prefix"]; prefix != "" {
		d.prefix, d.prefixFrom = prefix, flags.from["resource-prefix"]
	}
	for i, r := range file.ResourceList {
		if err := d.resource(fmt.Sprintf("resourceList[%d]", i), r); err != nil {
			return nil, d.notes, err
		}
	}
	return d.result(in.at(""))
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
	prefix     string
	prefixFrom origin
}

// nameOf returns the name of a resource, which must be there once. prefix is that of the resource, d.prefix otherwise.
func (d *sriov) nameOf(at, prefix, name string) (string, error) {
	if name == "" {
		return "", d.refuse(at, "resourceName is missing")
	}
	from := d.at(at + ".resourcePrefix")
	if prefix == "" {
		prefix, from = d.prefix, d.prefixFrom
	}
	if err := checkDomain(prefix, from); err != nil {
		return "", err
	}
	full := prefix + "/" + name
	if slices.ContainsFunc(d.resources, func(r poolResource) bool { return r.Name == full }) {
		return "", d.refuse(at+".resourceName", "%q is there twice", full)
	}
	return full, nil
}

func (d *sriov) resource(at string, r sriovResource) error {
	name, err := d.nameOf(at, r.ResourcePrefix, r.ResourceName)
	if err != nil {
		return err
	}
	var class string
	switch r.DeviceType {
	case "", "netDevice":
		class = "02"
		d.note("Network interfaces are moved into pods by Multus and the SR-IOV CNI plugin, as before; the device's ID is the PCI address, which they read from kubelet.")
		d.note("Files with device information are written below /var/run/k8s.cni.cncf.io, which the agent must see (docs/device.md); the variable PCIDEVICE_..._INFO is not set.")
	case "accelerator":
		class = "12"
	case "auxNetDevice":
		class = auxiliary
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
	named := d.at(at + ".resourceName")
	for i, s := range r.Selectors {
		selectors := fmt.Sprintf("%s.selectors[%d]", at, i)
		k, err := d.kind(selectors, name, class, s)
		if err != nil {
			return err
		}
		from := origins{
			"": d.at(selectors), "match.pci.vendors": d.at(selectors + ".vendors"), "match.pci.devices": d.at(selectors + ".devices"),
			"match.pci.drivers": d.at(selectors + ".drivers"), "edits.joinedEnv": named, "edits.env": named, "deviceInfo": named,
		}
		d.serve(name, 1, origins{"": d.at(at), "name": named}, d.add(r.ResourceName, k, from))
	}
	return nil
}

// kind returns the kind of one set of selectors.
func (d *sriov) kind(at, resource, class string, s sriovSelectors) (k deviceKind, err error) {
	var conditions []string
	if class == auxiliary {
		k.Match.Paths, k.ID = []string{"/sys/bus/auxiliary/devices/*"}, "{name}"
		conditions = s.subfunctions()
	} else {
		k.Match.PCI, k.ID = &pciMatch{Vendors: texts(s.Vendors), Devices: texts(s.Devices), Classes: []string{class}, Drivers: s.Drivers}, "{pci.address}"
		// Physical functions whose virtual functions are in use are no devices.
		conditions = []string{`!(self.has("sriov_numvfs") && self.number("sriov_numvfs") > 0)`}
	}
	k.Edits.JoinedEnv = map[string]kindJoined{variable("PCIDEVICE", resource): {k.ID}}
	k.Edits.Nodes = s.nodes(class == auxiliary)
	if !slices.ContainsFunc(k.Edits.Nodes, func(n kindNode) bool { return !n.Optional }) { // joined variables alone are no CDI device
		k.Edits.Env = map[string]string{variable("ACCELMUX_POOL", resource): "{kind}"}
	}
	if class == "02" {
		k.DeviceInfo = s.info(resource)
	}
	parents, err := d.parents(at, s, class == auxiliary)
	if err != nil {
		return k, err
	}
	links, err := d.links(at, s.LinkTypes)
	if err != nil {
		return k, err
	}
	conditions = append(conditions, parents, links)
	if len(s.PCIAddresses) > 0 {
		conditions = append(conditions, "pci.address in "+listOf(s.PCIAddresses))
	}
	if len(s.ACPIIndexes) > 0 {
		conditions = append(conditions, `self.text("acpi_index") in `+listOf(s.ACPIIndexes))
	}
	if s.IsRDMA {
		conditions = append(conditions, isRDMA)
	}
	if len(s.PKeys) > 0 {
		conditions = append(conditions, `self.names("infiniband/*").exists(h, self.text("infiniband/" + h + "/ports/1/pkeys/0") in `+listOf(s.PKeys)+")")
	}
	if s.VDPAType != "" {
		if s.VDPAType != "vhost" && s.VDPAType != "virtio" {
			return k, d.refuse(at+".vdpaType", "%q must be vhost or virtio", s.VDPAType)
		}
		conditions = append(conditions, fmt.Sprintf(
			`self.names("*").exists(v, sys.has("bus/vdpa/devices/" + v) && self.link(v + "/driver") == "%s_vdpa")`, s.VDPAType))
	}
	k.Match.Where = all(conditions...)
	if class != auxiliary && s.byDriver() && slices.ContainsFunc(k.Edits.Nodes, func(n kindNode) bool { return strings.HasPrefix(n.Path, "/dev/vfio/") }) {
		k.Health = append(k.Health, vfioGroupMissing)
	}
	if len(s.DDPProfiles) > 0 {
		return k, d.refuse(at+".ddpProfiles", "there is no counterpart, since sysfs does not have the profile of a card: take it out, and select by pfNames or pciAddresses")
	}
	if class == "02" && parents == "" && len(s.PCIAddresses) == 0 {
		d.note("%s: a port with the node's default route is not left out, as the plugin does: select by pfNames, rootDevices or pciAddresses.", resource)
	}
	return k, nil
}

// info is what Multus hands to CNI plugins.
func (s sriovSelectors) info(resource string) *kindInfo {
	fields := map[string]string{"pci-address": "pci.address", "pf-pci-address": `pci.link("physfn")`}
	if s.VDPAType != "" {
		fields["parent-device"] = `self.names("*").filter(v, sys.has("bus/vdpa/devices/" + v))[0]`
		fields["driver"] = strconv.Quote(s.VDPAType)
		fields["path"] = map[string]string{
			"vhost": `"/dev/" + self.names("*/vhost-vdpa-*")[0]`, "virtio": `"/sys/bus/virtio/devices/" + self.names("*/virtio*")[0]`,
		}[s.VDPAType]
		return &kindInfo{resource, "vdpa", fields}
	}
	if s.IsRDMA {
		fields["rdma-device"] = `self.names("infiniband/*").size() > 0 ? self.names("infiniband/*")[0] : ""`
	}
	if s.NeedVhostNet {
		fields["vhost-net"] = `"/dev/vhost-net"`
	}
	return &kindInfo{resource, "", fields}
}

// subfunctions are the conditions on devices of the auxiliary bus: those with an interface, be it in a pod, of
// the types, on the functions that are selected.
func (s sriovSelectors) subfunctions() []string {
	conditions := []string{`self.has("net")`}
	if len(s.AuxTypes) > 0 { // a name is driver.type.number
		conditions = append(conditions, "name.split(\".\")[1] in "+listOf(s.AuxTypes))
	}
	for _, c := range []struct {
		of   string
		list []string
	}{{"vendor", texts(s.Vendors)}, {"device", texts(s.Devices)}, {"driver", s.Drivers}} {
		if len(c.list) > 0 {
			conditions = append(conditions, "pci."+c.of+" in "+listOf(c.list))
		}
	}
	return conditions
}

// vfioGroupMissing is a fault of functions that have their group's node only if VFIO has them.
var vfioGroupMissing = kindHealth{
	Fault: "vfio-group-missing", When: `pci.driver.contains("vfio") && !sys.has("class/vfio/" + iommu.group)`,
	Message: "{pci.driver} has the function, but the kernel has no VFIO group {iommu.group} for it: see the kernel's log",
}

// byDriver reports whether functions have nodes of VFIO and UIO by the driver that is bound: without drivers in the
// selectors, or with several, as the plugin does (GetDefaultInfoProvider in pkg/factory/factory.go).
func (s sriovSelectors) byDriver() bool { return len(s.Drivers) != 1 }

// nodes returns the device nodes of functions with the drivers; those of subfunctions have none of VFIO and UIO.
func (s sriovSelectors) nodes(subfunctions bool) []kindNode {
	var nodes []kindNode
	unknown := len(s.Drivers) == 0 && !s.IsRDMA && s.VDPAType == "" && !subfunctions // an HCA and vDPA are of the card's driver
	switch {
	case !unknown && !slices.ContainsFunc(s.Drivers, isVFIO):
	case s.byDriver():
		nodes = append(nodes, kindNode{Path: `/dev/vfio/{pci.driver.contains("vfio") ? ["vfio", iommu.group] : []}`, Optional: true})
	default:
		nodes = append(nodes, kindNode{Path: "/dev/vfio/vfio"}, kindNode{Path: "/dev/vfio/{iommu.group}"})
	}
	if unknown || slices.ContainsFunc(s.Drivers, isUIO) {
		nodes = append(nodes, kindNode{Path: `/dev/uio{self.names("uio/*").map(n, n.replace("uio", ""))}`, Optional: s.byDriver()})
	}
	if s.IsRDMA {
		nodes = append(nodes, rdmaNodes...)
	}
	if s.VDPAType == "vhost" {
		nodes = append(nodes, kindNode{Path: `/dev/vhost-vdpa-{self.names("*/vhost-vdpa-*").map(n, n.replace("vhost-vdpa-", ""))}`})
	}
	if s.NeedVhostNet {
		nodes = append(nodes, kindNode{Path: "/dev/vhost-net"}, kindNode{Path: "/dev/net/tun"})
	}
	return nodes
}

// links is the condition on the type of the link. Sysfs does not show an interface that is in another network
// namespace, such as that of the pod that has it: then a virtual function has the type of its physical one, and a
// function of which no interface is visible can have any.
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
	of := func(net string) string {
		return fmt.Sprintf(`self.names(%q).exists(n, self.text(%q + n + "/type") in %s)`, net+"*", net, listOf(numbers))
	}
	return fmt.Sprintf(`(self.names("net/*").size() > 0 ? %s : self.names("physfn/net/*").size() > 0 ? %s : self.has("net"))`, of("net/"), of("physfn/net/")), nil
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
