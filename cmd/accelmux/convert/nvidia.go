// Package convert translates the configuration of another device plugin into a node
// configuration. What cannot be translated, or behaves otherwise, is a note.
package convert

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/suggestion"
)

// Source is how a plugin is configured. As in the plugin, the command line overrides the
// environment, and that the file.
type Source struct {
	// Name is the name of the configuration file, for errors, and File its text; it may be empty.
	Name string
	File []byte
	Env  map[string]string
	Args []string
}

// NVIDIA translates the configuration of NVIDIA's k8s-device-plugin and gpu-feature-discovery
// v0.20.0, or a ConfigMap of several. The result is a node configuration, which begins with the
// notes as comments. An error says why there is no such configuration.
func NVIDIA(s Source) (text []byte, notes []string, err error) {
	if s, err = deployed(s); err != nil {
		return nil, nil, err
	}
	configs, err := configsOf(s)
	if err != nil {
		return nil, nil, err
	}
	if len(configs) > 0 && configs[0].name != "" {
		return nvidiaConfigs(s, configs)
	}
	var file *namedConfig
	if len(configs) > 0 {
		file = &configs[0]
	}
	c, err := convertNVIDIA(s, file)
	if err != nil {
		return nil, c.notes, err
	}
	return writeProfiles(c.notes, []profile{c.profile()})
}

// convertNVIDIA translates one configuration; file is nil without one. It returns the notes also if it fails.
func convertNVIDIA(s Source, file *namedConfig) (*conversion, error) {
	c := &conversion{values: values{}, origins: origins{}}
	if file != nil {
		c.input = file.input
		c.origins[""] = c.at("")
	}
	if err := c.read(s, file); err != nil {
		return c, err
	}
	for _, step := range []func() error{c.platform, c.mig, c.roots, c.injection, c.options, c.health, c.labels, c.sharing, c.allocation} {
		if err := step(); err != nil {
			return c, err
		}
	}
	c.backend.Name = "nvidia"
	for i := range c.resources {
		c.resources[i].Injection, c.resources[i].AnnotationPrefix = c.by, c.annotations
		if c.annotations != "" {
			c.origins[fmt.Sprintf("resources[%d].annotationPrefix", i)] = c.values["flags.plugin.cdiAnnotationPrefix"].from
		}
	}
	return c, nil
}

// conversion is one in progress.
type conversion struct {
	input
	values
	notes
	backend   backend
	resources []resource
	origins   origins
	// by is the injection of all resources, annotations the prefix of annotations.
	by, annotations string
}

func (c *conversion) profile() profile {
	return profile{Name: config.DefaultProfile, Backends: []backend{c.backend}, Resources: c.resources, origins: c.origins}
}

// read reads the source, and notes what has no counterpart.
func (c *conversion) read(s Source, file *namedConfig) error {
	if file != nil {
		fields, err := c.readFile(c.input, "", file.root)
		for _, o := range fields {
			c.note("%s is not a field of k8s-device-plugin, which ignores it (line %d)%s", strconv.QuoteToASCII(o.field), o.Line, cmp.Or(suggestion.DidYouMean(o.field, fieldNames()), "."))
		}
		if err != nil {
			return err
		}
		switch version, ok := c.values["version"]; {
		case !ok:
			return c.input.refuse("", "there is no field version: it is not a configuration of k8s-device-plugin")
		case version.text != "v1":
			return version.from.refuse("must be v1, is %s", strconv.Quote(version.text))
		}
	}
	variables, err := c.readEnv(s.Env)
	if err != nil {
		return err
	}
	if err := c.readArgs(s.Args); err != nil {
		return err
	}
	for _, o := range options {
		if _, set := c.values[o.path]; set && o.note != "" {
			c.note("%s is not translated: %s.", o.path, o.note)
		}
	}
	for _, name := range variables {
		if err := c.notVariable(name, "k8s-device-plugin", variableNames()); err != nil {
			return err
		}
	}
	return nil
}

// section decodes a section of the file.
func (c *conversion) section(name string, into any) error {
	section := c.values[name].part
	if section == nil || section.ShortTag() == "!!null" {
		return nil
	}
	return c.decode(section, name, into)
}

// oneOf requires one of the values; "" is the first.
func (c *conversion) oneOf(path string, allowed ...string) (string, error) {
	value := c.text(path)
	if value == "" {
		return allowed[0], nil
	}
	if !slices.Contains(allowed, value) {
		return "", c.values.refuse(path, "must be one of %s, is %q", strings.Join(allowed, ", "), value)
	}
	return value, nil
}

func (c *conversion) platform() error {
	strategy, err := c.oneOf("flags.deviceDiscoveryStrategy", "auto", "nvml", "tegra")
	if strategy == "tegra" {
		c.backend.Settings.Edits.Mode = strategy
		c.note("settings.edits.mode is tegra: the system needs NVML, and the container runtime CDI.")
	}
	return err
}

func (c *conversion) mig() error {
	strategy, err := c.oneOf("flags.migStrategy", "none", "single", "mixed")
	c.resources = []resource{{Name: "nvidia.com/gpu", Class: "gpu"}}
	if strategy != "none" {
		c.backend.Settings.MIG.Strategy = strategy
	}
	if strategy == "mixed" {
		c.resources = append(c.resources, resource{Name: "nvidia.com/mig-{profile}", Class: "mig"})
	}
	return err
}

// chartRoot is where the chart's examples for NVIDIA mount the node's root directory.
const chartRoot = "/driver-root"

// roots translates where the driver is.
func (c *conversion) roots() error {
	e := &c.backend.Settings.Edits
	for _, option := range []string{"flags.nvidiaDriverRoot", "flags.nvidiaDevRoot", "flags.plugin.nvidiaCTKPath"} {
		if text := c.text(option); text != "" && !path.IsAbs(text) {
			return c.values.refuse(option, "must be an absolute path, is %q", text)
		}
	}
	e.DriverRoot = cmp.Or(c.text("flags.nvidiaDriverRoot"), "/")
	e.DriverRootMount = path.Join(chartRoot, e.DriverRoot)
	c.note("settings.edits.driverRootMount is for the agent's pod, where the chart's examples mount the node's root directory at %s; on a node without a container, remove it.", chartRoot)
	if root := c.text("flags.nvidiaDevRoot"); root != "/" {
		e.DevRoot = root
	}
	if root := c.text("flags.plugin.containerDriverRoot"); root != "" && root != chartRoot {
		c.note("flags.plugin.containerDriverRoot is not translated, as it is about the plugin's own pod.")
	}
	if hook := c.text("flags.plugin.nvidiaCTKPath"); path.Base(hook) == "nvidia-cdi-hook" {
		e.Hook = hook
	} else if hook != "" {
		c.note("flags.plugin.nvidiaCTKPath is not translated: settings.edits.hook is the path of nvidia-cdi-hook, by default /usr/bin/nvidia-cdi-hook.")
	}
	return nil
}

// injection translates how containers get devices.
func (c *conversion) injection() error {
	strategies := c.list("flags.plugin.deviceListStrategy")
	known := []string{"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"}
	if len(strategies) == 0 {
		strategies = known[:1]
	}
	has := map[string]bool{}
	for _, s := range strategies {
		if !slices.Contains(known, s) {
			return c.values.refuse("flags.plugin.deviceListStrategy", "must be of %s, is %q", strings.Join(known, ", "), s)
		}
		has[s] = true
	}
	ids, err := c.oneOf("flags.plugin.deviceIDStrategy", "uuid", "index")
	if err != nil {
		return err
	}
	e := &c.backend.Settings.Edits
	if e.Mode == "tegra" {
		return nil
	}
	switch {
	case has["volume-mounts"]:
		e.VisibleDevices = "mounts"
		if has["envvar"] {
			c.note("deviceListStrategy has envvar and volume-mounts: containers get the mounts, which the variable refers to.")
		}
	case has["envvar"]:
		e.VisibleDevices = "env"
	}
	if ids == "index" && e.VisibleDevices != "" {
		e.DeviceIDs = ids
	}
	if has["cdi-annotations"] || has["cdi-cri"] {
		return c.cdi(has["cdi-annotations"], has["cdi-cri"])
	}
	if len(c.list(disableHooks)) > 0 {
		c.note("%s is not translated: without CDI in deviceListStrategy there are no such hooks.", disableHooks)
	}
	e.Mode, c.by = "runtime", string(config.InjectPlain)
	if e.VisibleDevices == "env" {
		e.VisibleDevices = "" // the default of this mode
	}
	switch given, ok := c.values["flags.plugin.passDeviceSpecs"]; {
	case ok && !given.truth:
		e.OmitDeviceNodes = true
	case !ok:
		c.note("Containers get device nodes, too (passDeviceSpecs, which is off in k8s-device-plugin); settings.edits.omitDeviceNodes leaves them out.")
	}
	return nil
}

func (c *conversion) cdi(annotations, field bool) error {
	switch {
	case !annotations:
		c.by = string(config.InjectCDI)
	case !field:
		c.by = string(config.InjectCDIAnnotations)
	}
	prefix, ok := strings.CutSuffix(c.text("flags.plugin.cdiAnnotationPrefix"), "/")
	switch {
	case prefix == "" || prefix == config.DefaultAnnotationPrefix || !annotations:
	case !ok:
		return c.values.refuse("flags.plugin.cdiAnnotationPrefix", "accelmux needs a domain and a slash, such as nvidia.cdi.k8s.io/, not %q", prefix)
	case field:
		return c.values.refuse("flags.plugin.cdiAnnotationPrefix", "with both cdi-annotations and cdi-cri it would add each device twice: use one of the two")
	default:
		c.annotations = prefix
	}
	if c.truth("flags.plugin.passDeviceSpecs") {
		c.note("flags.plugin.passDeviceSpecs is not translated: the CDI definitions have the device nodes.")
	}
	for _, hook := range c.list(disableHooks) {
		if !hookName.MatchString(hook) {
			return c.values.refuse(disableHooks, "must be names of hooks of nvidia-cdi-hook, or all, is %q", hook)
		}
	}
	c.backend.Settings.Edits.DisabledHooks = c.list(disableHooks)
	return nil
}

// hookName is what the backend's schema accepts.
var hookName = regexp.MustCompile(`^[a-z-]{1,64}$`)

// The backend's bounds of IMEX channels and XIDs.
const maxChannel, maxChannels, maxXID = 1<<20 - 1, 64, 1<<16 - 1

// options translates what containers get beside the devices.
func (c *conversion) options() error {
	e := &c.backend.Settings.Edits
	e.GDS, e.MOFED, e.GDRCopy = c.truth("flags.gdsEnabled"), c.truth("flags.mofedEnabled"), c.truth("flags.gdrcopyEnabled")
	e.IMEX.Required = c.truth("imex.required")
	for _, text := range c.list("imex.channelIDs") {
		channel, err := strconv.Atoi(text)
		if err != nil || channel < 0 || channel > maxChannel {
			return c.values.refuse("imex.channelIDs", "must be numbers of 0 to %d, is %q", maxChannel, text)
		}
		if !slices.Contains(e.IMEX.Channels, channel) {
			e.IMEX.Channels = append(e.IMEX.Channels, channel)
		}
	}
	if n := len(e.IMEX.Channels); n > maxChannels {
		return c.values.refuse("imex.channelIDs", "at most %d channels are possible, these are %d", maxChannels, n)
	}
	return nil
}

// health translates what counts as a fault.
func (c *conversion) health() error {
	for _, name := range []string{disableHealth, enableHealth} {
		if value := c.text(name); value != "" {
			c.environment(name, value)
		}
	}
	var section struct {
		Disabled    bool     `yaml:"disabled"`
		EventTypes  []string `yaml:"eventTypes"`
		IgnoredXIDs []int    `yaml:"ignoredXIDs"`
	}
	critical := taken(c.values["health"].part, "criticalXIDs")
	if err := c.section("health", &section); err != nil {
		return err
	}
	if section.Disabled {
		c.environment(disableHealth, "all")
	}
	for i, xid := range section.IgnoredXIDs {
		if xid < 1 || xid > maxXID {
			return c.input.refuse(fmt.Sprintf("health.ignoredXIDs[%d]", i), "must be between 1 and %d, is %d", maxXID, xid)
		}
	}
	c.backend.Settings.XID.Ignore = section.IgnoredXIDs
	if section.EventTypes != nil {
		c.note("health.eventTypes is not translated: all events of the driver count; %s=all of the backend's env turns them off.", disableHealth)
	}
	if critical != "" && critical != "all" {
		c.note("health.criticalXIDs is not translated: see settings.xid.rows and settings.xid.unknown.")
	}
	return nil
}

// allocation translates how the devices of a container are chosen. As in the plugin, that is for replicas and MIG
// devices; distributed is the default here, too.
func (c *conversion) allocation() error {
	policy, err := c.oneOf(allocationPolicy, "distributed", "packed")
	if policy != "packed" {
		return err
	}
	for i := range c.resources {
		if r := &c.resources[i]; r.Replicas > 1 || r.Class == "mig" || c.backend.Settings.MIG.Strategy == "single" {
			r.Allocation.Policy = string(config.AllocatePack)
		}
	}
	return nil
}

func (c *conversion) environment(name, value string) {
	if c.backend.Env == nil {
		c.backend.Env = map[string]string{}
	}
	c.backend.Env[name] = value
	c.origins["backends[0].env."+name] = c.values[name].from
}

func (c *conversion) labels() error {
	if c.truth("flags.gfd") || c.truth("flags.gfd.noTimestamp") {
		c.backend.VendorLabels = []string{"nvidia.com"}
		c.backend.Settings.Labels.NoTimestamp = c.truth("flags.gfd.noTimestamp")
		c.note("Labels need nodeFeatures.publish: nfd of the chart, or --features-dir. Stop gpu-feature-discovery.")
	}
	return nil
}
