package convert

import "fmt"

// The configuration of the RDMA shared device plugin (its types UserConfig and Selectors).
type (
	rdmaFile struct {
		PeriodicUpdateInterval int            `yaml:"periodicUpdateInterval"`
		ConfigList             []rdmaResource `yaml:"configList"`
	}
	rdmaResource struct {
		ResourceName   string   `yaml:"resourceName"`
		ResourcePrefix string   `yaml:"resourcePrefix"`
		RDMAHCAMax     int      `yaml:"rdmaHcaMax"`
		Devices        []string `yaml:"devices"`
		Selectors      struct {
			Vendors   []hexID  `yaml:"vendors"`
			DeviceIDs []hexID  `yaml:"deviceIDs"`
			Drivers   []string `yaml:"drivers"`
			IfNames   []string `yaml:"ifNames"`
			LinkTypes []string `yaml:"linkTypes"`
		} `yaml:"selectors"`
	}
)

// RDMA translates the configuration of the RDMA shared device plugin
// (https://github.com/Mellanox/k8s-rdma-shared-dev-plugin).
func RDMA(s Source) ([]byte, []string, error) {
	if len(s.Args) > 0 {
		return nil, nil, fmt.Errorf("%q: the flags of the RDMA shared device plugin are not translated; give its file as FILE", s.Args[0])
	}
	root, in, err := open(s, "rdmaSharedDevicePlugin")
	if err != nil {
		return nil, nil, err
	}
	var file rdmaFile
	if err := in.decode(root, "", &file); err != nil {
		return nil, nil, err
	}
	d := &sriov{described: described{overlap: " The plugin serves it by each of them."}, input: in, prefix: "rdma"}
	if file.PeriodicUpdateInterval != 0 {
		d.note("periodicUpdateInterval is not translated: changes are served at once; settings.interval of the backend is how often files are read beside that.")
	}
	for i, r := range file.ConfigList {
		if err := d.shared(fmt.Sprintf("configList[%d]", i), r); err != nil {
			return nil, d.notes, err
		}
	}
	return d.result(in.at(""))
}

// shared adds the HCAs of a resource, which are one device for many containers.
func (d *sriov) shared(at string, r rdmaResource) error {
	name, err := d.nameOf(at, r.ResourcePrefix, r.ResourceName)
	if err != nil {
		return err
	}
	if r.RDMAHCAMax < 1 {
		return d.refuse(at+".rdmaHcaMax", "%d must be at least 1", r.RDMAHCAMax)
	}
	links, err := d.links(at+".selectors", r.Selectors.LinkTypes)
	if err != nil {
		return err
	}
	interfaces := ""
	if names := append(r.Selectors.IfNames, r.Devices...); len(names) > 0 {
		interfaces = `self.names("net/*").exists(n, n in ` + listOf(names) + ")"
	}
	shares := d.shares(name, r.RDMAHCAMax)
	k := deviceKind{
		Match: kindMatch{
			PCI: &pciMatch{
				Vendors: texts(r.Selectors.Vendors), Devices: texts(r.Selectors.DeviceIDs), Classes: []string{"02"}, Drivers: r.Selectors.Drivers,
			},
			Where: all(isRDMA, interfaces, links),
		},
		MergeBy: literal(r.ResourceName), Count: shares, Edits: kindEdits{Nodes: rdmaNodes},
	}
	d.note("All HCAs that a resource selects are one device, as in the plugin: a container gets the nodes of all of them. Without mergeBy each is a device.")
	named, selectors := d.at(at+".resourceName"), at+".selectors"
	d.serve(name, shares, origins{"": d.at(at), "name": named, "replicas": d.at(at + ".rdmaHcaMax")}, d.add(r.ResourceName, k, origins{
		"": d.at(at), "match.pci.vendors": d.at(selectors + ".vendors"), "match.pci.devices": d.at(selectors + ".deviceIDs"),
		"match.pci.drivers": d.at(selectors + ".drivers"), "mergeBy": named, "count": d.at(at + ".rdmaHcaMax"),
	}))
	return nil
}
