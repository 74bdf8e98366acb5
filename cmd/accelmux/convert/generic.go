package convert

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// The configuration of generic-device-plugin (its types DeviceSpec, Group, Path and USBSpec).
type (
	genericFile struct {
		Domain  string          `yaml:"domain"`
		Device  []genericDevice `yaml:"device"`
		Devices []genericDevice `yaml:"devices"`
		// The others are flags of its process.
		LogLevel        string `yaml:"log-level"`
		Listen          string `yaml:"listen"`
		PluginDirectory string `yaml:"plugin-directory"`
		// Status is of MicroShift's section.
		Status string `yaml:"status"`
	}
	genericDevice struct {
		Name   string         `yaml:"name"`
		Groups []genericGroup `yaml:"groups"`
	}
	genericGroup struct {
		Paths []genericPath `yaml:"paths"`
		USB   []genericUSB  `yaml:"usb"`
		// USBs is MicroShift's name of USB.
		USBs  []genericUSB `yaml:"usbs"`
		Count int          `yaml:"count"`
	}
	genericPath struct {
		Path        string `yaml:"path"`
		MountPath   string `yaml:"mountPath"`
		Type        string `yaml:"type"`
		ReadOnly    bool   `yaml:"readOnly"`
		Permissions string `yaml:"permissions"`
		Limit       int    `yaml:"limit"`
		Optional    bool   `yaml:"optional"`
	}
	genericUSB struct {
		Vendor  hexID  `yaml:"vendor"`
		Product hexID  `yaml:"product"`
		Serial  string `yaml:"serial"`
	}
	// hexID is four hexadecimal digits, with or without quotation marks in YAML.
	hexID string
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *hexID) UnmarshalText(text []byte) error {
	digits := strings.TrimPrefix(strings.ToLower(string(text)), "0x")
	n, err := strconv.ParseUint(digits, 16, 16)
	if err != nil {
		return fmt.Errorf("%q must be at most four hexadecimal digits, such as 1a86", text)
	}
	*id = hexID(fmt.Sprintf("%04x", n))
	return nil
}

// microShift is the section with the plugin's configuration in that of MicroShift (its documentation: Configuring,
// Using the Generic Device Plugin).
const microShift = "genericDevicePlugin"

// isMount reports whether it is one of a plain file, not of a device node.
func (p genericPath) isMount() bool { return p.Type == "Mount" }

// hasPattern reports whether a path may match several files.
func hasPattern(path string) bool { return strings.ContainsAny(path, `*?[\`) }

var genericName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)

// Generic translates the configuration file and the flags of generic-device-plugin
// (https://github.com/squat/generic-device-plugin).
func Generic(s Source) ([]byte, []string, error) {
	p := plugin{
		flags: map[string]bool{"device": false, "domain": false, "config": false, "config-file": false, "plugin-directory": false, "log-level": false, "listen": false},
		ignored: map[string]string{
			"config": "give the file as FILE", "config-file": "give the file as FILE", "plugin-directory": "hostPaths.devicePlugins of the chart is that directory, and --kubelet-dir of accelmux run is its parent",
			"log-level": "it is a flag of accelmux run", "listen": "--metrics-address is a flag of accelmux run",
		},
	}
	s, err := deployed(s)
	if err != nil {
		return nil, nil, err
	}
	flags, err := p.read(s)
	if err != nil {
		return nil, nil, err
	}
	g := &generic{described: described{notes: flags.notes, overlap: " The plugin serves it by each of them."}, domain: "squat.ai"}
	if err := g.file(s); err != nil {
		return nil, g.notes, err
	}
	if domain := flags.values["domain"]; domain != "" {
		g.domain, g.domainFrom = domain, flags.from["domain"]
	}
	if err := checkDomain(g.domain, g.domainFrom); err != nil {
		return nil, g.notes, err
	}
	if len(flags.all["device"]) > 0 { // as in the plugin, flags come before the file
		g.devices = nil
	}
	for i, text := range flags.all["device"] {
		if err := g.flag(fmt.Sprintf("--device %d", i+1), text); err != nil {
			return nil, g.notes, err
		}
	}
	if len(g.devices) == 0 {
		return nil, nil, errors.New("there is no device: give a FILE with devices, or flags after --, as in -- --device '{name: fuse, groups: [{paths: [{path: /dev/fuse}]}]}'")
	}
	for _, d := range g.devices {
		if err := g.device(d); err != nil {
			return nil, g.notes, err
		}
	}
	return g.result(g.devices[0].input.at(""))
}

// checkDomain refuses what cannot be the domain of a resource.
func checkDomain(domain string, from origin) error {
	if problems := validation.IsDNS1123Subdomain(domain); len(problems) > 0 {
		return from.refuse("%q is not a domain: %s", domain, strings.Join(problems, "; "))
	}
	return nil
}

// generic is a conversion in progress.
type generic struct {
	described
	domain     string
	domainFrom origin
	devices    []placedDevice
}

// placedDevice is a device and where it is written.
type placedDevice struct {
	genericDevice
	input
	at string
}

func (g *generic) file(s Source) error {
	if len(s.File) == 0 {
		return nil
	}
	root, in, err := open(s, "")
	if err != nil {
		return err
	}
	at := ""
	if section := field(root, microShift); section != nil {
		root, at, g.domain = section, microShift+".", "device.microshift.io"
		g.note("Set %s.status: Disabled in the configuration of MicroShift, so that it leaves these devices to accelmux.", microShift)
	}
	var f genericFile
	if err := in.decode(root, strings.TrimSuffix(at, "."), &f); err != nil {
		return err
	}
	if f.Domain != "" {
		g.domain, g.domainFrom = f.Domain, in.at(at+"domain")
	}
	for i, d := range f.Devices {
		g.devices = append(g.devices, placedDevice{d, in, fmt.Sprintf("%sdevices[%d]", at, i)})
	}
	for i, d := range f.Device {
		g.devices = append(g.devices, placedDevice{d, in, fmt.Sprintf("%sdevice[%d]", at, i)})
	}
	if f.LogLevel+f.Listen+f.PluginDirectory != "" {
		g.note("log-level, listen and plugin-directory are not translated: they are for the process of the plugin.")
	}
	return nil
}

// flag reads the value of a flag --device, which is YAML.
func (g *generic) flag(name, text string) error {
	in := input{file: name}
	root, err := config.Document(name, []byte(text))
	if err != nil {
		return err
	}
	var d genericDevice
	if err := in.decode(root, "", &d); err != nil {
		return err
	}
	g.devices = append(g.devices, placedDevice{d, in, ""})
	return nil
}

func (g *generic) device(d placedDevice) error {
	if !genericName.MatchString(d.Name) {
		return d.refuse(d.below("name"), "%q is not the name of a resource, such as fuse", d.Name)
	}
	resource := g.domain + "/" + d.Name
	var kinds []string
	var counts []int
	for i, group := range d.Groups {
		at := d.below(fmt.Sprintf("groups[%d]", i))
		made, err := g.group(d, at, resource, group)
		if err != nil {
			return err
		}
		if len(made) > 0 {
			kinds, counts = append(kinds, made...), append(counts, max(group.Count, 1))
		}
	}
	if len(kinds) == 0 {
		g.note("%s has no device that can be translated, so there is no such resource.", resource)
		return nil
	}
	if slices.Min(counts) != slices.Max(counts) {
		g.note("%s: the groups have several counts; replicas are for the whole resource, and the smallest count.", resource)
	}
	g.serve(resource, g.shares(resource, slices.Min(counts)), origins{"": d.input.at(d.at), "name": d.input.at(d.below("name"))}, kinds...)
	return nil
}

// below is the path of a field of the device.
func (d placedDevice) below(field string) string { return strings.TrimPrefix(d.at+"."+field, ".") }

// group adds the kinds of a group, and returns their names.
func (g *generic) group(d placedDevice, at, resource string, group genericGroup) (kinds []string, err error) {
	usb := at + ".usb"
	if len(group.USB) == 0 {
		group.USB, usb = group.USBs, at+".usbs"
	}
	switch {
	case len(group.Paths) > 0 && len(group.USB) > 0:
		return nil, d.refuse(at, "a group has either paths or usb")
	case len(group.Paths)+len(group.USB) == 0:
		return nil, d.refuse(at, "the group has neither paths nor usb")
	case group.Count < 0:
		return nil, d.refuse(at+".count", "%d must be at least 1", group.Count)
	}
	count := 0
	if group.Count > 1 {
		count = g.shares(resource, group.Count)
	}
	if len(group.USB) > 0 {
		g.note("%s: each USB device is a device of its own; generic-device-plugin has all USB devices of a group as one.", resource)
	}
	for i, u := range group.USB {
		if u.Vendor == "" || u.Product == "" {
			return nil, d.refuse(fmt.Sprintf("%s[%d]", usb, i), "vendor and product must be given")
		}
		k := deviceKind{Match: kindMatch{USB: &usbMatch{Products: []string{string(u.Vendor + ":" + u.Product)}}}, Count: count}
		if u.Serial != "" {
			k.Match.USB.Serials = []string{exactly(u.Serial)}
		}
		from := origins{"": d.input.at(fmt.Sprintf("%s[%d]", usb, i)), "match.usb.serials": d.input.at(fmt.Sprintf("%s[%d].serial", usb, i))}
		kinds = append(kinds, g.add(d.Name, k, from))
	}
	for i, p := range group.Paths {
		if err := checkGenericPath(d, fmt.Sprintf("%s.paths[%d]", at, i), p); err != nil {
			return nil, err
		}
	}
	if k, from, ok := g.paths(resource, d.input, at, group.Paths); ok {
		k.Count = count
		kinds = append(kinds, g.add(d.Name, k, from))
	}
	return kinds, nil
}

func checkGenericPath(d placedDevice, at string, p genericPath) error {
	_, err := path.Match(p.Path, "")
	switch {
	case !path.IsAbs(p.Path) || err != nil:
		return d.refuse(at+".path", "%q must be an absolute path, or a pattern for paths", p.Path)
	case !slices.Contains([]string{"", "Device", "Mount"}, p.Type):
		return d.refuse(at+".type", "%q must be Device or Mount", p.Type)
	case strings.Trim(p.Permissions, "rwm") != "":
		return d.refuse(at+".permissions", "%q must be of r, w and m", p.Permissions)
	case p.Limit < 0:
		return d.refuse(at+".limit", "%d must be at least 1", p.Limit)
	}
	return nil
}

// paths returns the kind of a group of paths. One of them is what is matched: the first device
// with a pattern, else the first that must be there. The others come along.
func (g *generic) paths(resource string, in input, group string, paths []genericPath) (k deviceKind, from origins, ok bool) {
	if len(paths) == 0 {
		return k, nil, false
	}
	main := -1
	for _, suits := range []func(genericPath) bool{
		func(p genericPath) bool { return !p.Optional && hasPattern(p.Path) },
		func(p genericPath) bool { return !p.Optional },
		func(genericPath) bool { return true },
	} {
		if main < 0 {
			main = slices.IndexFunc(paths, func(p genericPath) bool { return !p.isMount() && suits(p) })
		}
	}
	if main < 0 {
		g.note("%s: a group of mounts alone is not translated: a device needs a device node.", resource)
		return k, nil, false
	}
	pattern := path.Clean(paths[main].Path)
	name, inDev := strings.CutPrefix(pattern, "/dev/")
	first, _, _ := strings.Cut(name, "/")
	if !inDev || strings.Trim(first, "*?") == "" {
		g.note("%s: %s is not translated: device nodes are below /dev, and a pattern begins with the beginning of a name.", resource, pattern)
		return k, nil, false
	}
	if never := inventory.Never(inventory.UseNode, pattern, inventory.AnyBackend); never != "" && !inventory.IsDisk(inventory.UseNode, pattern) {
		g.note("%s: %s is not translated: it also stands for %s, which no container gets; name the devices that are meant.", resource, pattern, never)
		return k, nil, false
	}
	k.Match.Paths = []string{pattern}
	place := func(i int) origin { return in.at(fmt.Sprintf("%s.paths[%d]", group, i)) }
	from = origins{"": in.at(group), "match": place(main), "count": in.at(group + ".count")}
	if hasPattern(pattern) {
		g.note("%s: a device of %s is known by its hardware, also under another name.", resource, pattern)
	}
	for i, p := range paths {
		at := path.Clean(p.Path)
		switch {
		case i == main:
			at = "{node}"
			if len(paths) == 1 && p.MountPath == "" && p.Permissions == "" {
				continue // the default
			}
		case hasPattern(at):
			g.note("%s: %s is left out: generic-device-plugin pairs the matches of two patterns by their order, which changes with the devices; "+
				"write a node with a template, such as /dev/snd/controlC{...}.", resource, at)
			continue
		default:
			if hasPattern(pattern) && p.Limit <= 1 {
				g.note("%s: each device comes with %s; generic-device-plugin gives it to one of them at a time.", resource, at)
			}
			at = literal(at)
		}
		if p.isMount() {
			from[fmt.Sprintf("edits.mounts[%d]", len(k.Edits.Mounts))] = place(i)
			k.Edits.Mounts = append(k.Edits.Mounts, kindMount{Path: at, ContainerPath: literal(p.MountPath), Writable: !p.ReadOnly, Optional: p.Optional})
			continue
		}
		from[fmt.Sprintf("edits.nodes[%d]", len(k.Edits.Nodes))] = place(i)
		k.Edits.Nodes = append(k.Edits.Nodes, kindNode{Path: at, ContainerPath: literal(p.MountPath), Permissions: p.Permissions, Optional: p.Optional && i != main})
	}
	return k, from, true
}

// exactly is a pattern that matches a text only.
func exactly(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(text)
}
