// Package convert translates the configuration of another device plugin into a node
// configuration. What cannot be translated, or behaves otherwise, is a note.
package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/config"
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
	if configs, err := configsOf(s); err != nil {
		return nil, nil, err
	} else if len(configs) > 0 {
		return nvidiaConfigs(s, configs)
	}
	c, err := convertNVIDIA(s)
	if err != nil {
		return nil, nil, err
	}
	return write(c.notes, []backend{c.backend}, c.resources)
}

// convertNVIDIA translates one configuration.
func convertNVIDIA(s Source) (*conversion, error) {
	c := &conversion{values: values{}}
	if err := c.read(s); err != nil {
		return nil, err
	}
	for _, step := range []func() error{c.platform, c.mig, c.roots, c.injection, c.options, c.health, c.labels, c.sharing} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	c.backend.Name = "nvidia"
	for i := range c.resources {
		c.resources[i].Injection, c.resources[i].AnnotationPrefix = c.by, c.annotations
	}
	return c, nil
}

// conversion is one in progress.
type conversion struct {
	values
	notes
	backend   backend
	resources []resource
	// by is the injection of all resources, annotations the prefix of annotations.
	by, annotations string
}

// read reads the source, and notes what has no counterpart.
func (c *conversion) read(s Source) error {
	var file map[string]any
	if err := decodeFile(s.File, &file); err != nil {
		return err
	}
	switch version, ok := file["version"]; {
	case len(s.File) > 0 && !ok:
		return errors.New("the configuration file has no field version: it is not a configuration of k8s-device-plugin")
	case ok && version != "v1":
		return fmt.Errorf("the configuration file: version must be v1, is %v", version)
	}
	fields, err := c.readFile("", file)
	if err != nil {
		return fmt.Errorf("the configuration file: %w", err)
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
	for _, name := range fields {
		c.note("%s is not a field of k8s-device-plugin, which ignores it.", strconv.QuoteToASCII(name))
	}
	for _, name := range variables {
		c.note("%s is not a variable of k8s-device-plugin.", strconv.QuoteToASCII(name))
	}
	return nil
}

// section decodes a section of the file.
func (c *conversion) section(name string, into any) error {
	text, err := json.Marshal(c.values[name])
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(into)
	}
	if err != nil {
		return fmt.Errorf("the configuration file: %s: %w", name, err)
	}
	return nil
}

// oneOf requires one of the values; "" is the first.
func (c *conversion) oneOf(path string, allowed ...string) (string, error) {
	value := c.text(path)
	if value == "" {
		return allowed[0], nil
	}
	if !slices.Contains(allowed, value) {
		return "", fmt.Errorf("%s must be one of %s, is %q", path, strings.Join(allowed, ", "), value)
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
			return fmt.Errorf("flags.plugin.deviceListStrategy must be of %s, is %q", strings.Join(known, ", "), s)
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
	e.Mode, c.by = "runtime", string(config.InjectPlain)
	if e.VisibleDevices == "env" {
		e.VisibleDevices = "" // the default of this mode
	}
	switch given, ok := c.values["flags.plugin.passDeviceSpecs"]; {
	case ok && given == false:
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
		return fmt.Errorf("flags.plugin.cdiAnnotationPrefix: accelmux needs a domain and a slash, such as nvidia.cdi.k8s.io/, not %q", prefix)
	case field:
		return errors.New("flags.plugin.cdiAnnotationPrefix with both cdi-annotations and cdi-cri would add each device twice: use one of the two")
	default:
		c.annotations = prefix
	}
	if c.truth("flags.plugin.passDeviceSpecs") {
		c.note("flags.plugin.passDeviceSpecs is not translated: the CDI definitions have the device nodes.")
	}
	return nil
}

// options translates what containers get beside the devices.
func (c *conversion) options() error {
	e := &c.backend.Settings.Edits
	e.GDS, e.MOFED, e.GDRCopy = c.truth("flags.gdsEnabled"), c.truth("flags.mofedEnabled"), c.truth("flags.gdrcopyEnabled")
	e.IMEX.Required = c.truth("imex.required")
	for _, text := range c.list("imex.channelIDs") {
		channel, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("imex.channelIDs must be numbers, is %q", text)
		}
		e.IMEX.Channels = append(e.IMEX.Channels, channel)
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
		Disabled     bool
		EventTypes   []string
		IgnoredXIDs  []int
		CriticalXIDs any
	}
	if err := c.section("health", &section); err != nil {
		return err
	}
	if section.Disabled {
		c.environment(disableHealth, "all")
	}
	c.backend.Settings.XID.Ignore = section.IgnoredXIDs
	if section.EventTypes != nil {
		c.note("health.eventTypes is not translated: all events of the driver count; %s=all of the backend's env turns them off.", disableHealth)
	}
	if section.CriticalXIDs != nil && section.CriticalXIDs != "all" {
		c.note("health.criticalXIDs is not translated: see settings.xid.rows and settings.xid.unknown.")
	}
	return nil
}

func (c *conversion) environment(name, value string) {
	if c.backend.Env == nil {
		c.backend.Env = map[string]string{}
	}
	c.backend.Env[name] = value
}

func (c *conversion) labels() error {
	if c.truth("flags.gfd") || c.truth("flags.gfd.noTimestamp") {
		c.backend.VendorLabels = []string{"nvidia.com"}
		c.backend.Settings.Labels.NoTimestamp = c.truth("flags.gfd.noTimestamp")
		c.note("Labels need nodeFeatures.publish: nfd of the chart, or --features-dir. Stop gpu-feature-discovery.")
	}
	return nil
}
