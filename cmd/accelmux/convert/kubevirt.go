package convert

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The host devices that KubeVirt permits (its type PermittedHostDevices).
type (
	permittedDevices struct {
		PCI      []permittedPCI  `yaml:"pciHostDevices"`
		Mediated []permittedMdev `yaml:"mediatedDevices"`
		USB      []permittedUSB  `yaml:"usb"`
	}
	permittedPCI struct {
		PCIVendorSelector        string `yaml:"pciVendorSelector"`
		ResourceName             string `yaml:"resourceName"`
		ExternalResourceProvider bool   `yaml:"externalResourceProvider"`
	}
	permittedMdev struct {
		MdevNameSelector         string `yaml:"mdevNameSelector"`
		ResourceName             string `yaml:"resourceName"`
		ExternalResourceProvider bool   `yaml:"externalResourceProvider"`
	}
	permittedUSB struct {
		ResourceName             string `yaml:"resourceName"`
		ExternalResourceProvider bool   `yaml:"externalResourceProvider"`
		Selectors                []struct {
			Vendor  hexID `yaml:"vendor"`
			Product hexID `yaml:"product"`
		} `yaml:"selectors"`
	}
)

// KubeVirt translates the permittedHostDevices of a KubeVirt object (kubevirt.io/v1).
func KubeVirt(s Source) ([]byte, []string, error) {
	if len(s.Args) > 0 {
		return nil, nil, fmt.Errorf("%q: KubeVirt has no flags for devices; give its object as FILE", s.Args[0])
	}
	root, in, err := open(s, "")
	if err != nil {
		return nil, nil, err
	}
	node, at := permitted(root)
	if node == nil {
		return nil, nil, in.refuse("", "it has no spec.configuration.permittedHostDevices: give the KubeVirt object, or these fields")
	}
	var devices permittedDevices
	if err := in.decode(node, at, &devices); err != nil {
		return nil, nil, err
	}
	if at != "" {
		at += "."
	}
	k := &kubevirt{input: in}
	k.note("Set externalResourceProvider: true of all these devices in the KubeVirt object, so that KubeVirt leaves them to accelmux.")
	for i, p := range devices.PCI {
		if err := k.pci(fmt.Sprintf("%spciHostDevices[%d]", at, i), p); err != nil {
			return nil, k.notes, err
		}
	}
	for i, p := range devices.Mediated {
		if err := k.mediated(fmt.Sprintf("%smediatedDevices[%d]", at, i), p); err != nil {
			return nil, k.notes, err
		}
	}
	for i, p := range devices.USB {
		if err := k.usb(fmt.Sprintf("%susb[%d]", at, i), p); err != nil {
			return nil, k.notes, err
		}
	}
	return k.result(in.at(strings.TrimSuffix(at, ".")))
}

// permitted returns the node of the devices and its path.
func permitted(root *yaml.Node) (*yaml.Node, string) {
	for _, path := range [][]string{{"spec", "configuration", "permittedHostDevices"}, {"configuration", "permittedHostDevices"}, {"permittedHostDevices"}} {
		if n := field(root, path...); n != nil {
			return n, strings.Join(path, ".")
		}
	}
	for _, name := range []string{"pciHostDevices", "mediatedDevices", "usb"} {
		if field(root, name) != nil {
			return root, ""
		}
	}
	return nil, ""
}

// kubevirt is a conversion in progress.
type kubevirt struct {
	described
	input
}

// device adds a kind to a resource.
func (k *kubevirt) device(at, resource string, external bool, made deviceKind, selector string) error {
	domain, name, ok := strings.Cut(resource, "/")
	if !ok || domain == "" || name == "" {
		return k.refuse(at+".resourceName", "%q must be a domain, a slash and a name", resource)
	}
	if external {
		k.note("%s: another device plugin serves it now (externalResourceProvider): stop that one, or leave the resource out.", resource)
	}
	named := k.at(at + ".resourceName")
	from := origins{"": k.at(at), "match": k.at(at + "." + selector), "edits.joinedEnv": named, "mergeBy": named}
	k.serve(resource, 1, origins{"": k.at(at), "name": named}, k.add(name, made, from)) // several selectors may have one resource
	return nil
}

var pciSelector = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{4}$`)

// vfioNodes are those of a function or mediated device under VFIO, by its IOMMU group.
func vfioNodes(group string) []kindNode {
	return []kindNode{{Path: "/dev/vfio/" + group}, {Path: "/dev/vfio/vfio"}}
}

func (k *kubevirt) pci(at string, p permittedPCI) error {
	if !pciSelector.MatchString(p.PCIVendorSelector) {
		return k.refuse(at+".pciVendorSelector", "%q must be vendor and device, such as 10DE:1EB8", p.PCIVendorSelector)
	}
	return k.device(at, p.ResourceName, p.ExternalResourceProvider, deviceKind{
		Match:   kindMatch{PCI: &pciMatch{Devices: []string{strings.ToLower(p.PCIVendorSelector)}, Drivers: []string{driverVFIO}}},
		MergeBy: "{iommu.group}",
		Edits:   kindEdits{Nodes: vfioNodes("{iommu.group}"), JoinedEnv: map[string]kindJoined{variable("PCI_RESOURCE", p.ResourceName): {"{pci.address}"}}},
	}, "pciVendorSelector")
}

var spaces = regexp.MustCompile(`[ _]`)

func (k *kubevirt) mediated(at string, p permittedMdev) error {
	if p.MdevNameSelector == "" {
		return k.refuse(at, "mdevNameSelector is missing")
	}
	// KubeVirt compares names with _ for each space.
	name := spaces.ReplaceAllString(regexp.QuoteMeta(p.MdevNameSelector), "[ _]")
	return k.device(at, p.ResourceName, p.ExternalResourceProvider, deviceKind{
		Match: kindMatch{
			Paths: []string{"/sys/bus/mdev/devices/*"},
			Where: fmt.Sprintf(`(self.has("mdev_type/name") ? self.text("mdev_type/name") : self.link("mdev_type")).matches(%q)`, "^"+name+"$"),
		},
		ID: "{name}", // several are on one PCI function
		Edits: kindEdits{
			Nodes:     vfioNodes(`{self.link("iommu_group")}`),
			JoinedEnv: map[string]kindJoined{variable("MDEV_PCI_RESOURCE", p.ResourceName): {"{name}"}},
		},
	}, "mdevNameSelector")
}

func (k *kubevirt) usb(at string, p permittedUSB) error {
	var products []string
	for i, s := range p.Selectors {
		if s.Vendor == "" || s.Product == "" {
			return k.refuse(fmt.Sprintf("%s.selectors[%d]", at, i), "vendor and product must be given")
		}
		products = append(products, string(s.Vendor+":"+s.Product))
	}
	if len(products) == 0 {
		return k.refuse(at, "it has no selectors")
	}
	made := deviceKind{
		Match: kindMatch{USB: &usbMatch{Products: products}},
		Edits: kindEdits{JoinedEnv: map[string]kindJoined{variable("USB_RESOURCE", p.ResourceName): {"{usb.busNumber}:{usb.deviceNumber}"}}},
	}
	if len(products) > 1 {
		made.MergeBy = literal(p.ResourceName)
		k.note("%s: all USB devices that are selected are one device. KubeVirt makes a device of one for each selector.", p.ResourceName)
	}
	return k.device(at, p.ResourceName, p.ExternalResourceProvider, made, "selectors")
}
