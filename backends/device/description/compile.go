package description

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/tool"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Compiled is a kind that was checked. It is never changed. A program or template is nil where
// the kind has none.
type Compiled struct {
	Kind

	Where                  *expression.Program
	ID, MergeBy            *expression.Template
	Attributes, Capacities map[string]*expression.Program
	Nodes                  []CompiledNode
	Mounts                 []CompiledMount
	NetDevices             []CompiledNetDevice
	Env                    map[string]*expression.Template
	JoinedEnv              map[string]CompiledJoined
	Health                 []CompiledHealth
	Reset                  *CompiledReset
	Prepare                []CompiledStep
	Gauges, Counters       []CompiledMetric
	DeviceInfo             CompiledDeviceInfo
}

// The compiled parts of a kind.
type (
	// CompiledNode is a [Node].
	CompiledNode struct {
		Node
		Path, ContainerPath *expression.Template
	}
	// CompiledMount is a [Mount].
	CompiledMount struct {
		Mount
		Path, ContainerPath *expression.Template
	}
	// CompiledNetDevice is a [NetDevice].
	CompiledNetDevice struct{ Host, Name *expression.Template }
	// CompiledJoined is a [Joined] with its separator.
	CompiledJoined struct {
		Value     *expression.Template
		Separator string
	}
	// CompiledHealth is a [Health] with its defaults.
	CompiledHealth struct {
		Health
		When *expression.Program
		// File is Present, Absent, Grows or Heartbeat.
		File, Message *expression.Template
		Recovery      sdk.Recovery
		Reach         backendv1.Reach
		Within        time.Duration
	}
	// CompiledWrite is a [Write].
	CompiledWrite struct{ File, Value *expression.Template }
	// CompiledReset is a [Reset].
	CompiledReset struct {
		PCI     bool
		Write   *CompiledWrite
		Program []*expression.Template
	}
	// CompiledStep is a [Step].
	CompiledStep struct {
		Write *CompiledWrite
		Bind  *Bind
	}
	// CompiledDeviceInfo is a [DeviceInfo] with its default.
	CompiledDeviceInfo struct {
		Resource, Type string
		Fields         map[string]*expression.Program
	}
	// CompiledMetric is a [Metric] with its defaults.
	CompiledMetric struct {
		Name  string
		File  *expression.Template
		Scale float64
	}
)

// Compile checks a kind, whose path is at, and returns it compiled. It adds all that is wrong;
// then the result is not usable. [CheckNames] checks the name.
func Compile(at string, k Kind, errs *sdk.FieldErrors) *Compiled {
	c := checker{errs}
	k.Class = cmp.Or(k.Class, OtherClass)
	out := &Compiled{Kind: k, Attributes: map[string]*expression.Program{}, Capacities: map[string]*expression.Program{}}
	k.Match.Check(at+".match", errs)
	if k.Match.Where != "" {
		out.Where = c.program(at+".match.where", k.Match.Where, expression.Bool)
	}
	out.ID = c.template(at+".id", k.ID, expression.Text)
	out.MergeBy = c.template(at+".mergeBy", k.MergeBy, expression.Text)
	c.values(at+".attributes", k.Attributes, expression.Attribute, out.Attributes)
	c.values(at+".capacities", k.Capacities, expression.Int, out.Capacities)
	if _, ok := k.Attributes[KindAttribute]; ok {
		c.add(at+".attributes."+KindAttribute, "it is always the name of the kind: leave it out")
	}
	if _, ok := k.Attributes[CountedAttribute]; ok {
		c.add(at+".attributes."+CountedAttribute, "the backend sets it: leave it out")
	}
	for name := range k.Capacities {
		if _, ok := k.Attributes[name]; ok || name == KindAttribute || name == CountedAttribute {
			c.add(key(at+".capacities", name), "there is an attribute of this name: rename one")
		}
	}
	if _, ok := k.Capacities[SharesCapacity]; ok && k.Count > 0 {
		c.add(at+".capacities."+SharesCapacity, "it is the count: leave one of the two out")
	}
	if _, ok := k.Attributes[SharesCapacity]; ok && k.Count > 0 {
		c.add(at+".attributes."+SharesCapacity, "it is the count: rename it, or leave the count out")
	}
	if k.Count > 0 && len(k.Edits.NetDevices) > 0 {
		c.add(at+".count", "a network interface is in one container at a time: leave it out")
	}
	c.nodes(at+".edits", k)
	c.edits(at+".edits", k.Edits, out)
	c.containerPaths(at+".edits", out)
	for i, h := range k.Health {
		at := fmt.Sprintf("%s.health[%d]", at, i)
		out.Health = append(out.Health, c.health(at, h, k.Health[:i]))
		if h.Recovery == "reset" && k.Reset == nil {
			c.add(at+".recovery", "the kind has no reset: give it one, or another recovery, such as reboot")
		}
	}
	if k.Reset != nil {
		out.Reset = c.reset(at+".reset", *k.Reset)
		if len(k.Edits.Nodes) == 0 && (k.Match.PCI != nil || k.Match.Class == "net") {
			c.add(at+".reset", "a device without nodes is never reset, as they show whether a process uses it: give edits.nodes, or leave reset out")
		}
		if k.Reset.PCI && k.Match.USB != nil {
			c.add(at+".reset.pci", "it would reset the USB controller with all that is behind it: give write or program")
		}
	}
	for i, s := range k.Prepare {
		out.Prepare = append(out.Prepare, c.step(fmt.Sprintf("%s.prepare[%d]", at, i), s))
	}
	c.hardware(at+".hardware", k.Hardware)
	out.DeviceInfo = c.deviceInfo(at+".deviceInfo", k.DeviceInfo)
	seen := map[string]bool{}
	out.Gauges = c.metrics(at+".telemetry.gauges", k.Telemetry.Gauges, false, seen)
	out.Counters = c.metrics(at+".telemetry.counters", k.Telemetry.Counters, true, seen)
	return out
}

const (
	// KindAttribute is the attribute that has the name of the kind.
	KindAttribute = "kind"
	// CountedAttribute is true for a device whose ID has a number that the kernel counts. Others do
	// not have it.
	CountedAttribute = "countedID"
	// OtherClass is the class of devices whose kind names none.
	OtherClass = "other"
	// SharesCapacity is the capacity that has the count.
	SharesCapacity = "shares"
)

// values compiles attributes or capacities.
func (c checker) values(at string, texts map[string]string, want expression.Want, into map[string]*expression.Program) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !attributeName.MatchString(name) || strings.HasPrefix(name, "accelmux.io/") || strings.Contains(name, ".accelmux.io/") {
			c.add(key(at, name), "the name must be a C identifier of at most 32 characters, such as memory, or one after a domain of the vendor and a slash")
		}
		into[name] = c.program(key(at, name), texts[name], want)
	}
}

func (c checker) edits(at string, e Edits, out *Compiled) {
	for i, n := range e.Nodes {
		at := fmt.Sprintf("%s.nodes[%d]", at, i)
		node := CompiledNode{Node: n, Path: c.hostPath(at+".path", n.Path, "/dev/", expression.Texts)}
		if n.ContainerPath != "" {
			node.ContainerPath = c.hostPath(at+".containerPath", n.ContainerPath, "/", expression.Text)
		}
		out.Nodes = append(out.Nodes, node)
	}
	for i, m := range e.Mounts {
		at := fmt.Sprintf("%s.mounts[%d]", at, i)
		mount := CompiledMount{Mount: m, Path: c.hostPath(at+".path", m.Path, "/", expression.Text)}
		if m.ContainerPath != "" {
			mount.ContainerPath = c.hostPath(at+".containerPath", m.ContainerPath, "/", expression.Text)
		}
		out.Mounts = append(out.Mounts, mount)
	}
	if len(e.NetDevices) > 0 && out.Match.Class != "net" {
		c.add(at+".netDevices", "they are for a kind that matches network interfaces: give match.class net")
	}
	for i, n := range e.NetDevices {
		at := fmt.Sprintf("%s.netDevices[%d]", at, i)
		out.NetDevices = append(out.NetDevices, CompiledNetDevice{c.interfaceName(at+".host", n.Host), c.interfaceName(at+".name", n.Name)})
	}
	out.Env, out.JoinedEnv = map[string]*expression.Template{}, map[string]CompiledJoined{}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		c.variable(key(at+".env", name), name)
		out.Env[name] = c.template(key(at+".env", name), e.Env[name], expression.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(e.JoinedEnv)) {
		at, j := key(at+".joinedEnv", name), e.JoinedEnv[name]
		c.variable(at, name)
		if _, ok := e.Env[name]; ok {
			c.add(at, "it is in env, too: keep one")
		}
		if len(j.Separator) > 16 || strings.ContainsAny(j.Separator, "\n\r\x00") {
			c.add(at+".separator", "%q must have at most 16 bytes on one line", j.Separator)
		}
		out.JoinedEnv[name] = CompiledJoined{c.template(at+".value", j.Value, expression.Text), cmp.Or(j.Separator, ",")}
	}
}

func (c checker) variable(at, name string) {
	if !envName.MatchString(name) {
		c.add(at, "%q is no name of a variable: use letters, digits, _, - and ., and begin with a letter or _", name)
	}
}

func (c checker) health(at string, h Health, before []Health) CompiledHealth {
	out := CompiledHealth{
		Health: h, Message: c.template(at+".message", h.Message, expression.Text), Within: defaultWithin,
		Recovery: recoveries[h.Recovery], Reach: reaches[h.Reach],
	}
	if slices.ContainsFunc(before, func(other Health) bool { return other.Fault == h.Fault }) {
		c.add(at+".fault", "%q is there twice: give each its own code", h.Fault)
	}
	files := map[string]string{"present": h.Present, "absent": h.Absent, "grows": h.Grows, "heartbeat": h.Heartbeat}
	given := map[string]bool{"when": h.When != "", "event": h.Event != ""}
	for name, file := range files {
		given[name] = file != ""
	}
	c.one(at, given)
	if h.When != "" {
		out.When = c.program(at+".when", h.When, expression.Bool)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if given[name] {
			out.File = c.file(at+"."+name, files[name])
		}
	}
	if d := time.Duration(h.Within); d != 0 {
		out.Within = d
		if h.Heartbeat == "" {
			c.add(at+".within", "it is for a heartbeat: leave it out")
		} else if d < minWithin || d > maxWithin {
			c.add(at+".within", "%v must be between %v and %v", d, minWithin, maxWithin)
		}
	}
	return out
}

// written are the directories with the files that a kind may write: what links in /sys/class lead to is in the others.
var written = []string{"/sys/devices/", "/sys/bus/", "/sys/class/"}

func (c checker) write(at string, w *Write) *CompiledWrite {
	if w == nil {
		return nil
	}
	if path.IsAbs(w.File) && !slices.ContainsFunc(written, func(dir string) bool { return strings.HasPrefix(w.File, dir) }) {
		c.add(at+".file", "%q must be below the object, or below one of %s, which the manifest lets the backend write to", w.File, strings.Join(written, ", "))
	}
	return &CompiledWrite{c.file(at+".file", w.File), c.template(at+".value", w.Value, expression.Text)}
}

func (c checker) reset(at string, r Reset) *CompiledReset {
	c.one(at, map[string]bool{"pci": r.PCI, "write": r.Write != nil, "program": r.Program != nil})
	out := &CompiledReset{PCI: r.PCI, Write: c.write(at+".write", r.Write)}
	for i, argument := range r.Program {
		at := fmt.Sprintf("%s.program[%d]", at, i)
		if i == 0 {
			if err := tool.CheckPath(argument); err != nil || argument == "" || strings.ContainsAny(argument, "{}") {
				c.add(at, "%q must be an absolute path without . or .., and without expressions", argument)
			}
		}
		out.Program = append(out.Program, c.template(at, argument, expression.Text))
	}
	return out
}

func (c checker) step(at string, s Step) CompiledStep {
	c.one(at, map[string]bool{"write": s.Write != nil, "bind": s.Bind != nil})
	return CompiledStep{Write: c.write(at+".write", s.Write), Bind: s.Bind}
}

func (c checker) deviceInfo(at string, d DeviceInfo) CompiledDeviceInfo {
	out := CompiledDeviceInfo{d.Resource, cmp.Or(d.Type, "pci"), map[string]*expression.Program{}}
	if d.Resource != "" && !resourceName().MatchString(d.Resource) {
		c.add(at+".resource", "%q must be the name of a resource, such as intel.com/sriov", d.Resource)
	}
	if !infoName.MatchString(out.Type) {
		c.add(at+".type", "%q is no type of the specification, such as pci", d.Type)
	}
	if d.Resource != "" && len(d.Fields) == 0 {
		c.add(at+".fields", "it is missing: give at least pci-address")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Fields)) {
		if !infoName.MatchString(name) {
			c.add(key(at+".fields", name), "%q is no name of the specification, such as pci-address", name)
		}
		out.Fields[name] = c.program(key(at+".fields", name), d.Fields[name], expression.Text)
	}
	return out
}

func (c checker) metrics(at string, list []Metric, counters bool, seen map[string]bool) []CompiledMetric {
	var out []CompiledMetric
	for i, m := range list {
		at := fmt.Sprintf("%s[%d]", at, i)
		isTotal := strings.HasSuffix(m.Name, "_total")
		switch {
		case !metricName.MatchString(m.Name) || len(m.Name) > 64:
			c.add(at+".name", "%q must be lower-case words with _ between them, the base unit last, such as temperature_celsius", m.Name)
		case counters && !isTotal:
			c.add(at+".name", "%q is a counter's, which ends in _total", m.Name)
		case !counters && isTotal:
			c.add(at+".name", "%q is a gauge's, which does not end in _total: name it otherwise, or make it a counter", m.Name)
		case seen[m.Name]:
			c.add(at+".name", "%q is there twice: keep one", m.Name)
		}
		seen[m.Name] = true
		out = append(out, CompiledMetric{Name: m.Name, File: c.file(at+".file", m.File), Scale: cmp.Or(m.Scale, 1)})
	}
	return out
}
